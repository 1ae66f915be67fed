"""Drivers that register with the node."""
