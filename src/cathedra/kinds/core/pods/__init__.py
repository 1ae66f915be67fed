"""Pods, and the templates from which workloads create them.

`defaults` completes a pod, `disabled_fields` removes fields that gates close, `validation` checks it, `warnings` warns
of it, and `strategy` writes it, with its quality of service class, its deletion and its columns. `usage` charges it to
quotas. `templates` has the parts for workloads. `equivalence` gives specs of one workload the same key in memos.
"""
