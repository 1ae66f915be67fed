"""From tree to verdict.

`types` are what signatures and `wellknown` messages are made of; the `checker` finds the type of every node,
`validators` look at literals, and `cost` estimates in `ranges` what an evaluation may cost.
"""
