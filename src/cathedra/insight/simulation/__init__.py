"""Simulation: the real API server, scheduler and controllers on a copy of a cluster, in virtual time.

`plan` parses the changes, `copying` loads a state into a store and simulates its nodes, `run` applies the changes,
waits until nothing changes any more and compares. `report` has the result as data and as text.
"""
