"""One container of a pod, over all its restarts.

`records` is its state machine, of immutable records that `table` holds for a pod. `plan` says which containers are to
run now, `probes` asks them, `probemonitor` does that for a pod, and `termination` ends them. `logfiles` reads what they
wrote, `terminationmessage` the messages that they left.
"""
