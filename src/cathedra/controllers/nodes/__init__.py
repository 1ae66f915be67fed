"""Nodes as the control plane sees them: alive or not, tainted or not, and what becomes of their pods.

`lifecycle` watches heartbeats and sets conditions and taints, `tainteviction` evicts pods that do not tolerate them,
`podgc` clears away pods that no node will end any more (docs/spec/controllers.md §9 and §10).
"""
