"""Deletes what has lost its owners: pods of jobs, claims of pods, slices of nodes.

`controller` reads the owner graph out of the informers and acts on it (docs/spec/controllers.md §5).
"""
