"""Evaluation of CEL expressions on the devices of a state.

`match` returns the devices that a selector matches, those on which it fails, and near misses, as data and as text.
`session` is the dialogue of ``kubectl dra repl``.
"""
