"""The life of a pod on its node.

`podmanager` gives every pod bound to the node a `worker`, which keeps what it knows in a `podstate`. The worker has the
pod admitted (`admission`, `amounts`), sets it up (`volumes`, claims), asks `plan` what to start, has that done by
`running` (`launch` and `environment` describe a container, `monitor` and `probes` watch it), has what became of it
written by `statuswriter` (`status` says what), and ends it (`termination`). `recovery` finds the containers of an
earlier agent; `logfiles` reads what containers wrote, and `lastwords` their termination messages.
"""
