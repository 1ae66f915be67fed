"""The node agent: the part of a kubelet that runs pods with claims on a node.

In the order in which a claim passes through: `plugins` (registration of drivers on unix sockets), `claims` (prepare,
unprepare and the checkpoint of prepared claims), `pods` (lifecycle of a pod), `images` (pulling), `setup` (volumes and
environment of containers), `resources` (limits and cgroups), `deviceplugins` (extended resources of device plugins),
`containers` (state of each container), `runtime` (container runtimes), `shim` (the process that is the parent of
containers), `server` (logs, exec, pod resources). `agent` composes them, `config` holds the options, and `nodestatus`
renews the node's lease and writes its status.
"""
