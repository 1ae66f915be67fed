"""Meaning of API objects: each rule once, for the API server, scheduler, controllers, node and tools.

Everything here is pure. `owners` reads owner references, `conditions` reads and sets conditions, `nodes` and `pods`
read readiness and phases, `services` finds the pods of a service, `tolerations` matches taints of nodes and devices,
`podresources` adds up the requests of a pod, `podclaims` finds the claims of a pod's entries, and `podobstacles` finds
why a pod does not run on its node, or does not end.

Where Kubernetes itself has two implementations of a rule that differ, there are two functions in one module, each with
its source.
"""
