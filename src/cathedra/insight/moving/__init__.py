"""Moves: the fewest pods with claims to move or evict so that another one fits, and plans against fragmentation.

`movable` lists what may be moved, `search` finds the fewest moves, `plan` turns them into steps and proves them with a
simulation, `defrag` repeats that for a whole cluster, and `applying` carries a plan out. Only `applying` writes, and
only when it is called with a client.
"""
