"""Example drivers, built on the SDK: simulated devices that behave like real ones as far as Kubernetes can see.

`cathedra.drivers.gpu` is the one that ``cathedra up`` runs on each node.
"""
