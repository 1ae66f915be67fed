"""Namespaces: what each is born with, and how one is emptied before it goes.

`deletion` empties namespaces that are being deleted; `defaults` gives every active one its service account and the
certificate that pods may trust (docs/spec/controllers.md §6).
"""
