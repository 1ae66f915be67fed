"""Kinds of resource.k8s.io (docs/spec/api.md).

`claims` (with templates) and `slices` are folders, `classes`, `taintrules` and `poolstatusrequests` modules.
`versions` has the versions of each release, `declared` the tags. `names`, `expressions` and `binding` have rules that
several kinds share, and `errorpaths` the paths of older releases. `definitions` returns all kinds.
"""
