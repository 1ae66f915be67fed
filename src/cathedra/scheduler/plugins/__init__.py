"""Kube-scheduler's basic plugins, under their own names.

`gates` keeps pods out of the queue; `node_fitness` has the plugins on the node alone (name, unschedulable, taints,
affinity); `node_resources`, `node_ports` and `image_locality` compare the pod with what is on the node;
`topology_spread` and `interpod_affinity` with other pods; `gangs` with its group. `preemption` evicts pods, and
`binder` binds. Devices have a package of their own, `cathedra.scheduler.dynamicresources` (docs/spec/scheduling.md
§17).
"""
