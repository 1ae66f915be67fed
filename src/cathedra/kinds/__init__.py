"""The rules of every kind that the API server has built in: one folder per group, and one per kind where it is big.

`definition` is the form in which a kind is described, `builtin` and `strategies` the short way to write it down.
`core`, `apps`, `batch`, `resource`, `scheduling` and `machinery` hold the kinds: defaults, fields of disabled features,
conversion, validation, table columns, strategy and definition of a kind stand together. `metadata`, `conditions`,
`nodeselectors`, `defaults` and `columns` are what many of them are made of. `served` lists what a release serves,
`evaluators` say what is charged to quotas.
"""
