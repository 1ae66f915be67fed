"""Kubernetes' controllers. Each is level-triggered and keeps its state in the API alone.

In the order in which a claim meets them: `resourceclaim` (creates claims from templates, reserves and deallocates
them), `job` and `workloads` (create the pods that use claims), `nodes` (health, taints, pods without a node),
`devicetaints` (evicts pods from tainted devices), `poolstatus` (reports the free devices of pools), `garbagecollector`
and `namespaces` (delete dependents and contents), `certificates` and `bootstraptokens` (let nodes join).
`controller_manager` runs them.
"""
