"""The roles and bindings that every cluster begins with.

`rulebook` is how they are written down, `userroles`, `systemroles` and `controllerroles` are the book, `defaults` makes
objects of it under given feature gates, and `reconcile` brings a store up to date when the server starts.
"""
