"""Declarative validation: rules that are tags beside the fields of an API type (docs/spec/api.md §3.1).

`tags` has the form of the tags, `formats` the checks that they name, and `walking` applies them to an object and merges
their errors with those of the kind's own rules.
"""
