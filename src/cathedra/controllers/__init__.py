"""The control loops that keep a cluster's promises; each is level-triggered and keeps its state in the API alone.

In the order in which a claim meets them: `resourceclaim` (template → claim, reservations, deallocation), `job` and
`workloads` (make the pods that use claims), `nodes` (health, taints, pods without a node), `devicetaints` (evicts pods
from bad devices), `poolstatus` (answers what a pool has left), `garbagecollector` and `namespaces` (take away what has
no reason to be). `controller_manager` runs them all.
"""
