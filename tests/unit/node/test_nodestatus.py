"""How a node tells that it lives (docs/spec/node.md §17.11)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Node, Taint
from cathedra.api.struct import replace
from cathedra.client.resources import NODES
from cathedra.node.config import NodeConfig
from cathedra.node.nodestatus import node_allocatable, node_capacity
from tests.unit.node.fakes import NODE, NodeTransport, Setting
from tests.unit.node.test_agent import play

NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


class Meddling(NodeTransport):
    """A controller taints the node right after its creation, as the node lifecycle controller does."""

    async def create(self, ref: Any, namespace: str, obj: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        created = await super().create(ref, namespace, obj, options, *args, **kwargs)
        if isinstance(created, Node):
            await super().update(
                ref, namespace, replace(created, spec=replace(created.spec, taints=(NOT_READY,))), options
            )
        return created


def test_a_node_that_others_change_meanwhile_is_written_again_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def body(s: Setting) -> None:
        await asyncio.sleep(0.1)
        node = await s.client.resource(NODES).get(NODE)
        assert node.spec.taints == (NOT_READY,)
        assert any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)

    with caplog.at_level(logging.WARNING):
        play(body, Meddling)
    assert caplog.text == ""


def test_a_node_declares_that_websockets_come_as_they_are() -> None:
    async def body(s: Setting) -> None:
        await asyncio.sleep(0.1)
        status = (await s.client.resource(NODES).get(NODE)).status
        assert status.declared_features == ("ExtendWebSocketsToKubelet",)

    play(body)


def test_pods_may_have_what_is_not_reserved() -> None:
    config = NodeConfig(
        name=NODE, root=None, capacity={"cpu": "4", "memory": "1Gi"}, reserved={"cpu": "1500m", "memory": "2Gi"}
    )
    assert node_capacity(config)["cpu"] == "4"
    found = {name: str(quantity) for name, quantity in node_allocatable(config).items()}
    assert (found["cpu"], found["memory"], found["pods"]) == ("2500m", "0", "110")
