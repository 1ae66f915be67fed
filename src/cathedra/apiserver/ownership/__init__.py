"""Owners of fields: which manager owns which fields of an object, kept in ``metadata.managedFields``.

`tracking` is where a create, update or patch comes in, `applying` where an apply does. Both find out what the write
changed: between two structs (`structs`) or two documents (`documents`), along the shape of the kind (`typed`). Then
`managers` moves the changed fields, which are sets of paths (`fieldset`), from one manager to the other.
"""
