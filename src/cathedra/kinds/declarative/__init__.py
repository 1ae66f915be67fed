"""Declarative validation: rules that stand as tags beside the fields of an API type (docs/spec/api.md §3.1).

`tags` is what the tags say, `formats` the checks of single values that they name, `walking` goes through an object
with them, and `merging` makes one list of what they and the rules of the kind found.
"""
