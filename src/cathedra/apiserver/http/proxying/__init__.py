"""Requests that other servers answer.

`proxy` passes logs, exec and other streams to the agents of nodes, `reverse` passes the sub-resource ``proxy`` to
nodes, pods and services, and `aggregation` passes whole API groups to other API servers. `targets` has the addresses,
`connections` the HTTP client for nodes, `passing` the limits, headers, bodies and WebSockets of passed requests, and
`upgrades` the bytes of SPDY connections.
"""
