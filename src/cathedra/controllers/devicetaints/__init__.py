"""Eviction of pods from devices with a NoExecute taint, and the status of taint rules.

`taints` collects the taints of allocated devices and computes when a pod must be evicted; `controller` evicts and
writes the rules' conditions (docs/spec/controllers.md §3).
"""
