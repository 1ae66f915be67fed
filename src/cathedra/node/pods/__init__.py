"""The life of a pod on its node.

`podmanager` learns of the node's pods from a `podsource` and gives each a `worker`, which works in the surroundings of
its `context`. The worker has the pod admitted (`admission`), set up (`preparation`), its containers started and
watched (`runner`), and ended. Each piece of state has one owner: the API object `podobject`, the stage `lifecycle`, the
containers the runner's table (see `cathedra.node.containers`). `statuswriter` writes what became of the pod, as
`status` says. `recovery` finds the containers that an earlier agent left.
"""
