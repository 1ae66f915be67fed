"""Kinds of the core group.

`pods` is the largest of them. `namespaces`, `nodes`, `events`, `configuration` (ConfigMaps and Secrets), `services`,
`endpoints`, `volumes`, `quotas` and `replicationcontrollers` hold one or two kinds each; `definitions` is the list, and
holds the kinds that need nothing but their names.
"""
