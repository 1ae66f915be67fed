"""Who runs the containers of a node.

`runtime` is the protocol that pods are run through; `simulated` plays it in memory; `hosted` plays it with real
processes, which a `keeper` process holds so that they outlive the agent: OCI containers by crun or runc (`bundle` says
what is in them), or plain processes where there is neither. `choose` finds out which of these this machine can do.
"""
