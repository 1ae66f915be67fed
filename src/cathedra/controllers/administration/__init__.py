"""What keeps an administrator's settings true: `clusterroles` fills aggregated roles, `quotas` counts what is used,
`policystatus` checks the types of admission policies, `disruptions` says how many pods may be evicted, `podgroups` lets
deleted groups go."""
