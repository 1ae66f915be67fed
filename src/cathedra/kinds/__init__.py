"""Rules of all built-in kinds: one folder per group, and one per kind where it is large.

`definition` is the form of a kind's description, `builtin` and `strategies` the short way to write one. `core`, `apps`,
`batch`, `resource`, `scheduling` and `machinery` have the kinds: each has its defaults, disabled fields, conversion,
validation, columns, strategy and definition together. `metadata`, `conditions`, `nodeselectors`, `defaults`, `columns`
and `deletion` are parts that many kinds share, and `declarative` applies rules that are tags. `served` returns the
kinds of a release, and `evaluators` charges objects to quotas.
"""
