"""The life of a pod on its node.

`podmanager` gives every pod bound to the node a `worker`, which keeps what it knows in a `podstate`. The worker has the
pod admitted (`admission`), set up (see `cathedra.node.setup`) and its containers started and ended by `running`, with
`monitor` watching them; `statuswriter` writes what became of it, as `status` says. `recovery` finds the containers that
an earlier agent left.
"""
