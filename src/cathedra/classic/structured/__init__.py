"""Structured parameters of 1.30: the scheduler allocates named instances that drivers publish in slices.

`selectors` are the expressions in requests and class filters, `parameters` finds the objects that claims and classes
mean, `allocation` picks instances on a node (docs/spec/scheduling.md §18.4).
"""
