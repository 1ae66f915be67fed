"""The roles and bindings that every cluster begins with.

`rulebook` is how they are written down, `userroles`, `systemroles` and `controllerroles` are the book, `defaults` makes
objects of it under given feature gates. `cathedra.apiserver.bootstrap.roles` brings a store up to date with them.
"""
