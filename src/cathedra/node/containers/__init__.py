"""One container of a pod, over all its restarts.

`records` remembers what became of it, `plan` says which containers are to run now, `probes` asks how they do,
`termination` ends them. `logfiles` reads what they wrote, `terminationmessage` the messages they left.
"""
