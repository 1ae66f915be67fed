"""Type check and cost estimate. `types` are the types of expressions and protobuf messages; `checker` infers the type
of every node, `validators` check literals, and `cost` estimates the cost of an evaluation.

`types` are what signatures and `wellknown` messages are made of; the `checker` finds the type of every node,
`validators` check literals, and `cost` estimates in `ranges` what an evaluation may cost.
"""
