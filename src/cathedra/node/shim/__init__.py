"""The process that holds a node's containers, so that they outlive the node agent.

A container's parent has to live as long as the container: it reads what the container writes, and only it learns the
exit code. An agent that was killed and started again must find both. So containers are children of this small program,
one per node, which does nothing but hold them. It stands on the standard library alone (and is started without site
packages), because it is there all the time and its start counts.

`client` is the agent's end of the line and starts the shim where none is; everything else runs in the shim's own
process: `main`, `shim` (requests and answers), `container` (one container: its state on disk), `streams` (what goes
in and comes out), `logfile` (where it is written), `children` (processes and their ends), `kernel` (mounts, cgroups).
"""
