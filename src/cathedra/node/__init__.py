"""The node agent: everything a kubelet does so that a pod with claims runs on a node.

In the order in which a claim passes through: `plugins` (drivers that register on unix sockets), `claims` (prepare,
unprepare, and what is remembered of it), `pods` (the life of a pod), `setup` (what its containers are given),
`resources` (how much of the node they may use), `deviceplugins` (classic extended resources beside claims),
`containers` (what becomes of each), `runtime` (who runs them), `shim` (the process that holds them), `server` (logs,
exec, pod resources). `agent` puts them together, `config` says how, `nodestatus` tells the API server that the node
lives.
"""
