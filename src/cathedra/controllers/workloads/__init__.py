"""Replica sets, deployments, stateful sets and daemon sets: pods that are to run for ever.

`workload` is what all four do alike, `templates` compares and hashes pod templates, `rollout` says how many pods of
which version there should be; the others are one controller each (docs/spec/controllers.md §8). Claims in a
template are passed through unchanged: each pod that comes of it gets its own.
"""
