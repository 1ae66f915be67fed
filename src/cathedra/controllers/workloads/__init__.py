"""Replica sets, replication controllers, deployments, stateful sets and daemon sets.

`workload` is what they share, `templates` compares and hashes pod templates and computes the sizes of a rollout, and
`replicasets` sizes the replica sets of a deployment and computes its conditions. The other modules are controllers
(docs/spec/controllers.md §8). Claims in a template are copied unchanged: each pod gets claims of its own.
"""
