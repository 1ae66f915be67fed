"""The life of a pod on its node.

`podmanager` gives every pod bound to the node a `worker`; the worker sets the pod up (`volumes`, claims), asks `plan`
what to start, describes containers (`launch`, `environment`), watches them (`containers`, `probes`), writes what became
of them (`status`), and ends them (`termination`). `logfiles` reads what they wrote.
"""
