"""From checked tree to answer, in two ways.

`compiler` makes Python code for the hot path. `evaluator` plans steps (`attributes`, `steps`, `folds`) that share a
`run`, count what calls cost, and leave a trace.
"""
