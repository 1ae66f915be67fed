"""The Pod, and the templates that workloads make pods of.

A pod is filled in by `defaults`, freed of `disabled_fields`, checked by `validation` and written by `strategy`, which
gives it its class in `qos`; `deletion` says how long it has to end. `columns` shows it, `usage` charges it to quotas;
`templates` holds what workloads need.
"""
