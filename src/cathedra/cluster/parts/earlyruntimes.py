"""Container runtimes of a cluster's nodes, looked for while its API server opens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.foundation import node_root
from cathedra.cluster.parts.nodes import Choosing
from cathedra.node.config import NodeConfig

__all__ = ["early_runtimes"]


@asynccontextmanager
async def early_runtimes(config: ClusterConfig, clock: Clock) -> AsyncIterator[Mapping[str, Choosing]]:
    """What answers the runtime of each node that has one, by the node's name; what no node takes is ended.

    Raises:
        NotPrivate: a node's directory for Secrets is another user's.
    """
    if config.runtime == "simulated":
        yield {}
        return
    # start-up time: a simulated node runs no containers
    from cathedra.node.runtime.choose import EarlyRuntime

    async with AsyncExitStack() as stack:
        choosing = {}
        for name in (*config.node_names, *config.leaving):
            node = NodeConfig(
                name=name, root=node_root(config, name), runtime=config.runtime, cri_socket=config.cri_socket
            )
            early = EarlyRuntime(node, clock)
            stack.push_async_callback(early.close)
            choosing[name] = early.take
        yield choosing
