"""What API objects mean: each rule once, for the API server, the scheduler, the controllers, the node and the tools.

Everything here is pure: objects in, answers out. The modules, from what all objects have to what only pods with claims
have:

`owners` reads owner references, `conditions` reads and sets conditions, `nodes` and `pods` say whether a node or a pod
is ready and what a pod's phase means, `services` which pods are behind a service, `tolerations` matches taints of nodes
and devices, `podresources` adds up what a pod asks of its node, and `podclaims` leads from a pod's entries to its
claims.

Where Kubernetes itself has two implementations of a rule that differ, there are two functions side by side, each with
its source.
"""
