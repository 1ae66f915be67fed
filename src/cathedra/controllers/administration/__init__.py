"""Controllers of cluster settings: `clusterroles` aggregates roles, `quotas` counts usage, `policystatus` type-checks
admission policies, `disruptions` computes how many pods may be evicted, and `podgroups` removes finalizers of deleted
groups.
"""
