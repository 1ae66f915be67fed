"""Lifecycle of pods on their node.

`podmanager` watches the node's pods and gives each a `worker`, which adopts the containers of an earlier agent and
then takes the pod through admission (`admission`), setup (`preparation`), running (`runner`) and termination. `context`
holds what workers share. Each piece of state has one owner: the API object `podobject`, the stage `lifecycle`, the
containers the runner's table (see `cathedra.node.containers`). `statuswriter` computes and writes the pod's status,
`resizer` resizes running pods, and `usage` measures them.
"""
