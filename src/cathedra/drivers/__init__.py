"""Drivers built on the SDK: one whose devices are simulated, and those for what a machine really has.

`example` is the driver that ``cathedra up`` runs on each node, in several profiles; `gpu` is its plain profile as a
program of its own.
"""
