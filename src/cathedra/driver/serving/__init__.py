"""The driver's side of the kubelet plugin protocols.

`plugin` runs the gRPC servers: the DRA service first, then registration, because the node agent calls as soon as the
registration socket exists. `registration` has the paths of sockets, what is announced, and the node agent's response.
gRPC is imported only when a server starts.
"""
