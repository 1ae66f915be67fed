"""Kinds of the core group.

`pods` is the largest of them. `namespaces`, `nodes`, `events`, `configuration` (ConfigMaps and Secrets), `services`,
`endpoints`, `volumes`, `quotas` and `replicationcontrollers` hold one or two kinds each. The list is in
`cathedra.kinds.served`.
"""
