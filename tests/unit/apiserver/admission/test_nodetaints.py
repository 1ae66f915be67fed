"""New nodes take no pods before a controller has seen that they are ready."""

from __future__ import annotations

import asyncio
import random

from cathedra.api.core.core_v1 import Node, NodeSpec, Taint
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import LoopClock, run_virtual

FIRST = ("node.kubernetes.io/not-ready", "NoSchedule")


def taints_after_creation(*taints: Taint, lifecycle: bool = True) -> list[tuple[str, str]]:
    async def main() -> list[tuple[str, str]]:
        clock = LoopClock(asyncio.get_running_loop())
        server = await APIServer.open(ServerConfig(node_lifecycle=lifecycle), clock=clock, random=random.Random(1))
        nodes = Client(server.transport(), clock=clock).resource(NODES)
        node = await nodes.create(Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(taints=taints)))
        created = [(taint.key, taint.effect) for taint in node.spec.taints]
        updated = await nodes.update(replace(node, spec=replace(node.spec, taints=())))
        assert updated.spec.taints == (), "only creation adds the taint"
        await server.close()
        return created

    return run_virtual(main())


def test_a_new_node_is_tainted() -> None:
    own = Taint(key="own", effect="NoExecute")
    assert taints_after_creation() == [FIRST]
    assert taints_after_creation(own) == [("own", "NoExecute"), FIRST]


def test_a_node_that_comes_with_the_taint_keeps_one() -> None:
    assert taints_after_creation(Taint(key=FIRST[0], value="v", effect="NoSchedule")) == [FIRST]


def test_a_server_without_controllers_leaves_nodes_as_they_are() -> None:
    assert taints_after_creation(lifecycle=False) == []
