"""The parent process of a node's containers, which outlives the node agent.

The parent of a container must live as long as the container: it reads the container's output, and only it receives the
exit code. An agent that was killed and restarted must find both. Containers are therefore children of this small
program, one per node, which does nothing else. It uses the standard library alone and starts without site packages,
because it runs all the time and its start delays the agent's.

`protocol` has the messages and errors between agent and shim. In the agent, `client` finds or starts the shim and calls
it. Everything else runs in the shim's process: `main` (requests of agents), `supervisor` (all containers),
`streams` (input, output and log files), `children` (processes
and their exits), `processes` (other processes of a container), `pins` (mounted parts of volumes), `kernel` (mounts,
cgroups).

If the shim dies, its containers die too: the next shim kills what is left of them and reports them as lost.
"""
