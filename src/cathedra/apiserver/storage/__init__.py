"""Stores, which make writes durable. Nothing outside the API server uses them.

`protocol` has their interfaces, and the store that keeps nothing. `sqlite` is a file that this process alone writes:
`transactions` writes batches into its log, `compaction` keeps the log short, and `revisionfile` remembers outside the
database what was acknowledged. Several servers share `etcd`, or `primary`, the log of another server of the cluster.
"""
