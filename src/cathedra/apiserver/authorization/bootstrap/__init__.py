"""The roles and bindings that every cluster begins with.

`rulebook` is the notation, `systemroles` and `controllerroles` have the roles of parts, and `defaults` has those of
users and makes objects of all under given feature gates. `cathedra.apiserver.bootstrap.roles` brings a store up to date
with them.
"""
