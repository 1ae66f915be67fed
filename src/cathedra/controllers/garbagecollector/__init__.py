"""Deletes what has lost its owners: pods of jobs, claims of pods, slices of nodes.

`ownership` reads the owner graph out of the informers, `controller` acts on it (spec: controllers.md, section 5).
"""
