"""The driver's side of the kubelet plugin protocols.

In the order of a driver's start: `sockets` (where), `plugin` (the gRPC servers: DRA service first, then registration,
because the registration socket's appearance is what makes the node agent call), `registration` (what is announced, and
what the node agent said to it). gRPC is imported only when a server starts.
"""
