"""Kinds of the group apps, which keep a number of equal pods running (docs/spec/controllers.md §7).

`deployments`, `replicasets`, `statefulsets` and `daemonsets` hold one kind each, `validation` the rules they share,
`definitions` the list.
"""
