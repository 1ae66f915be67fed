"""Nodes as the control plane sees them: their health, their taints, and the pods on unreachable ones.

`lifecycle` watches heartbeats and sets conditions and taints, `tainteviction` evicts pods that do not tolerate them,
and `podgc` deletes pods that no node agent will finish (docs/spec/controllers.md §9 and §10).
"""
