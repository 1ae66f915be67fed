"""Three hosts with a control plane each, and what clients see when one of them is lost.

The hosts are network namespaces of this machine: `network` makes them, and cuts and restores their links. `cluster`
starts etcd, the API server, the scheduler and the controllers on each of them, and the nodes on a host of their own.
`client` runs beside the nodes: it writes objects, runs pods with claims, and records every call. `checking` reads that
history: acknowledged writes are there, no write was lost to another, and no device was allocated twice.
"""
