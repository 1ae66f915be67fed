"""Replica sets, replication controllers, deployments, stateful sets and daemon sets: pods that are to run for ever.

`workload` is what all of them do alike, `templates` compares and hashes pod templates, `rollout` says how many pods of
which version there should be; `replicasets` sizes the replica sets of a deployment, and `deploymentstatus` tells how
far it has come. The others are controllers (docs/spec/controllers.md §8). Claims in a template are passed through
unchanged: each pod that comes of it gets its own.
"""
