"""Kinds of resource.k8s.io (docs/spec/api.md).

`claims` (with templates), `slices` and `poolstatusrequests` are folders, `classes` and `taintrules` modules. `versions`
says which release serves which version; `names`, `expressions`, `taints` and `binding` are rules that several of the
kinds share. `definitions` is the list.
"""
