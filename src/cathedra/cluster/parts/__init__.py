"""Parts as a cluster composes them: the control plane, and nodes with their drivers.

`controlplane` makes scheduler and controllers, `nodes` makes nodes with drivers and injected faults, and
`inprocessnodes` runs and supervises them. `generations` has the differences of releases with classic DRA, and
`gctuning` configures the garbage collector.
"""
