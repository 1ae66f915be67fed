"""Drivers built on the SDK: one with simulated devices, and those for hardware.

`example` is the driver that ``cathedra up`` runs on each node, in several profiles; `gpu` is its plain profile as a
program of its own. `hostdev`, `cpu`, `net` and `nvidia` publish what a machine really has.
"""
