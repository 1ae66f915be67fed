"""Inventory of devices: each device, the claims that hold it, what is left of it, and totals.

`listing` computes rows and totals from a state. `report` has their form as data and as text.
"""
