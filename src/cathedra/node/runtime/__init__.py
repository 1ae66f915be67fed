"""Container runtimes of a node.

`runtime` is the protocol between pods and runtimes. `simulated` implements it in memory, `cri` over the socket of
containerd or CRI-O, and `hosted` with processes of its own under a container shim (see `cathedra.node.shim`), so that
they outlive the agent: `oci` containers by crun or runc (`bundle` writes their configuration), or a plain `process`.
`command` and `attached` carry the streams of exec and attach, `notstarted` explains failed starts, and `usage` reads
cgroups. `choose` selects the runtime that this machine supports, before the API server is available if possible.
"""
