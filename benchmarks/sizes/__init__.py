"""A large cluster on one server: memory, start from the store, lists in pages, watch fan-out, and the loss of a node.

The server is API server, scheduler and all controllers in one process, with the SQLite store. The agents of simulated
nodes are in a second process, on sessions, and the other load comes from a third over HTTP and TLS. Each node has ten
pods, five of them with a claim. They are written into the store directly, as copies of what one node with its pods has
left there, because creating them through the API would take minutes; the agents find the containers of all pods
running, as kubelets do that are restarted.

A stall is the processor time of the server's event loop between two of its timers, which are due 10 ms after each
other. Unlike seconds it does not depend on other work on the machine.

    python -m benchmarks sizes
    python -m benchmarks.sizes NODES
"""

from __future__ import annotations

from benchmarks.sizes.measuring import Sizes, measured, rows

__all__ = ["Sizes", "measured", "rows"]
