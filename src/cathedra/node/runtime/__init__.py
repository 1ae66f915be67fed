"""Container runtimes of a node.

`runtime` is the protocol that pods are run through; `simulated` plays it in memory; `hosted` plays it with real
processes, which a container shim (see `cathedra.node.shim`) holds so that they outlive the agent: `oci` containers by
crun or runc (`bundle` says what is in them), or a plain `process` where there is neither. `command` and `attached`
carry the input and output of exec and attach. `choose` finds out which of these this machine can do.
"""
