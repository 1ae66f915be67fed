"""Kinds of the machinery's own groups: who may do what, what is admitted, what exists besides the built-in kinds.

`rbac`, `policies`, `webhooks`, `customresources`, `leases`, `disruptionbudgets`, `signingrequests`, `networking` and
`storage` hold one group or kind each; `definitions` is the list, and holds the kinds that need nothing but their names.
"""
