"""Kinds of the group apps, which keep a number of equal pods running (docs/spec/controllers.md §7).

`deployments`, `replicasets`, `statefulsets`, `daemonsets` and `controllerrevisions` hold one kind each, `validation`
the rules they share.
"""
