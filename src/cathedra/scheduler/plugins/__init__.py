"""Kube-scheduler's basic plugins, under their own names.

`gates` keeps pods out of the queue; `node_fitness` looks at the node alone (name, unschedulable, taints, affinity);
`node_resources` at what is left on it; `node_ports` and `image_locality` at details; `topology_spread` and
`interpod_affinity` at other pods; `preemption` makes room; `binder` binds. Devices have a package of their own,
`cathedra.scheduler.dynamicresources` (docs/spec/scheduling.md §17).
"""
