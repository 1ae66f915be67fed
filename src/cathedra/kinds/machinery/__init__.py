"""Kinds of the machinery's own groups: permissions, admission, and kinds besides the built-in ones.

`rbac`, `policies`, `webhooks`, `customresources`, `leases`, `disruptionbudgets`, `signingrequests`, `networking` and
`storage` have one group or kind each. `definitions` returns all, and defines those without rules of their own.
"""
