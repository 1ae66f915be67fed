"""Nodes that fall silent, and what becomes of their pods."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
)
from cathedra.api.struct import Time, replace
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.nodes.lifecycle import NodeLifecycleController
from tests.unit.controllers.nodes.objects import beat, node, pod, taints
from tests.unit.controllers.world import World, play


def with_ready(node: Node, status: str) -> NodeStatus:
    ready, *others = node.status.conditions
    return replace(node.status, conditions=(replace(ready, status=status), *others))


def test_a_silent_node_becomes_unknown_and_unreachable_and_its_pods_not_ready() -> None:
    async def story(world: World) -> None:
        await node(world, "dead")
        await node(world, "live")
        await pod(world, "p", "dead")
        heart = asyncio.ensure_future(beat(world, "live"))
        await world.clock.sleep(45)
        assert await taints(world, "dead") == set()
        await world.clock.sleep(20)
        conditions = {c.type: c for c in (await world.of(NODES).get("dead")).status.conditions}
        assert {c.status for c in conditions.values()} == {"Unknown"}
        assert conditions["Ready"].reason == "NodeStatusUnknown"
        assert conditions["Ready"].message == "Kubelet stopped posting node status."
        assert conditions["DiskPressure"].reason == "NodeStatusNeverUpdated"
        assert await taints(world, "dead") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        assert await taints(world, "live") == set()
        ended = (await world.of(PODS).get("p")).status.conditions
        assert [(c.type, c.status) for c in ended] == [("Ready", "False")]
        assert ("Normal", "NodeNotReady", "Node dead status is now: NodeNotReady") in await world.events()
        heart.cancel()

    play(NodeLifecycleController, story)


def test_what_a_node_says_of_itself_is_no_event_and_leaves_its_pods_alone() -> None:
    async def story(world: World) -> None:
        await node(world, "a")
        await node(world, "b")
        await pod(world, "p", "a")
        await world.quiet()
        await world.change(NODES, "a", lambda n: replace(n, status=with_ready(n, "False")), status=True)
        await world.quiet()
        assert ("not-ready", "NoSchedule") in await taints(world, "a")
        assert not [reason for _, reason, _ in await world.events() if reason == "NodeNotReady"]
        assert [c.status for c in (await world.of(PODS).get("p")).status.conditions] == ["True"]

    play(NodeLifecycleController, story)


def test_a_node_that_comes_back_loses_its_taints() -> None:
    async def story(world: World) -> None:
        await node(world, "a", "False")
        await node(world, "b")
        await world.clock.sleep(20)
        assert await taints(world, "a") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
        ready = NodeCondition(type="Ready", status="True", last_heartbeat_time=Time(world.clock.now()))
        status = NodeStatus(conditions=(ready,))
        await world.change(NODES, "a", lambda n: replace(n, status=status), status=True)
        await world.clock.sleep(10)
        assert await taints(world, "a") == set()

    play(NodeLifecycleController, story)


def test_a_cordoned_node_is_tainted() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.change(NODES, "n1", lambda n: replace(n, spec=NodeSpec(unschedulable=True)))
        await world.quiet()
        assert await taints(world, "n1") == {("unschedulable", "NoSchedule")}

    play(NodeLifecycleController, story)
