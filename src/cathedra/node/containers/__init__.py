"""Containers of a pod, over all their restarts.

`records` has the state machine of a container, the table of a pod's containers, and the decision which containers to
start next. `probes` runs their probes, `termination` stops them and reads their termination messages, and `logfiles`
reads their logs.
"""
