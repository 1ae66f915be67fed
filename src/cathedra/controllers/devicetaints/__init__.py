"""Evicts pods from devices that carry a NoExecute taint, and tells how a taint rule is getting on.

`taints` collects the taints of allocated devices, `eviction` decides when a pod has to go, `rulestatus` words the
condition of a rule, `controller` does the work (docs/spec/controllers.md §3).
"""
