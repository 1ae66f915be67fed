"""Kinds of scheduling.k8s.io (docs/spec/api.md §6.4).

`workloads` hold templates of `podgroups`; both come through `conversion` at 1.36 and are checked by `validation`.
`priorityclasses` stand beside them; `definitions` is the list.
"""
