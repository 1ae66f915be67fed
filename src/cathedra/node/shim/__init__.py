"""The process that holds a node's containers, so that they outlive the node agent.

A container's parent has to live as long as the container: it reads what the container writes, and only it learns the
exit code. An agent that was killed and started again must find both. So containers are children of this small program,
one per node, which does nothing but hold them. It stands on the standard library alone (and is started without site
packages), because it is there all the time and its start counts.

`protocol` says what the two talk about. In the agent, `client` finds or starts the shim and `connection` carries
requests and answers. Everything else runs in the shim's own process: `main`, `server` (agents and their requests),
`supervisor` (all containers), `container` (one of them: its state on disk), `streams` (what goes in and comes out),
`logfile` (where it is written), `children` (processes and their ends), `processes` (what else runs of a container),
`kernel` (mounts, cgroups).

A shim that dies takes its containers with it: the next one kills what is left of them and reports them as lost.
"""
