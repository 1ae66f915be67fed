"""Device plugins (``v1beta1``) beside DRA: extended resources that need no claim.

`registration` accepts plugins at the node's socket and calls them over gRPC. `manager` has the interface of these
calls, keeps the plugins' devices, allocates them to containers and checkpoints the allocations.
"""
