"""Deletes what has lost its owners: pods of jobs, claims of pods, slices of nodes.

`ownership` reads the owner graph out of the informers, `controller` acts on it (docs/spec/controllers.md §5).
"""
