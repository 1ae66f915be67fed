"""Nodes that fall silent, and what becomes of their pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Taint,
    Toleration,
)
from cathedra.api.struct import Time, from_dict, replace
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.nodes import lifecycle
from cathedra.controllers.nodes.lifecycle import (
    NOT_READY,
    UNREACHABLE,
    NodeLifecycleController,
    eviction_delay,
    no_execute_key,
    no_schedule_keys,
)
from tests.running import run_with
from tests.unit.controllers.nodes.objects import beat, node, pod, taints
from tests.unit.controllers.world import World, play


def with_ready(node: Node, status: str) -> NodeStatus:
    ready, *others = node.status.conditions
    return replace(node.status, conditions=(replace(ready, status=status), *others))


@run_with(lambda test: play(NodeLifecycleController, test))
async def test_a_silent_node_becomes_unknown_and_unreachable_and_its_pods_not_ready(world: World) -> None:
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


@run_with(lambda test: play(NodeLifecycleController, test))
async def test_what_a_node_says_of_itself_is_no_event_and_leaves_its_pods_alone(world: World) -> None:
    await node(world, "a")
    await node(world, "b")
    await pod(world, "p", "a")
    await world.quiet()
    await world.change(NODES, "a", lambda n: replace(n, status=with_ready(n, "False")), status=True)
    await world.quiet()
    assert ("not-ready", "NoSchedule") in await taints(world, "a")
    assert not [reason for _, reason, _ in await world.events() if reason == "NodeNotReady"]
    assert [c.status for c in (await world.of(PODS).get("p")).status.conditions] == ["True"]


@run_with(lambda test: play(NodeLifecycleController, test))
async def test_a_node_that_comes_back_loses_its_taints(world: World) -> None:
    await node(world, "a", "False")
    await node(world, "b")
    await world.clock.sleep(20)
    assert await taints(world, "a") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
    ready = NodeCondition(type="Ready", status="True", last_heartbeat_time=Time(world.clock.now()))
    status = NodeStatus(conditions=(ready,))
    await world.change(NODES, "a", lambda n: replace(n, status=status), status=True)
    await world.clock.sleep(10)
    assert await taints(world, "a") == set()


@run_with(lambda test: play(NodeLifecycleController, test))
async def test_a_cordoned_node_is_tainted(world: World) -> None:
    await node(world, "n1")
    await world.change(NODES, "n1", lambda n: replace(n, spec=NodeSpec(unschedulable=True)))
    await world.quiet()
    assert await taints(world, "n1") == {("unschedulable", "NoSchedule")}


def node_with(*, unschedulable: bool = False, **conditions: str) -> Node:
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return from_dict(Node, {"spec": {"unschedulable": unschedulable}, "status": {"conditions": found}})


@pytest.mark.parametrize(
    ("made", "keys"),
    [
        (node_with(Ready="True"), set()),
        (node_with(Ready="False"), {"not-ready"}),
        (node_with(Ready="Unknown"), {"unreachable"}),
        (node_with(), {"not-ready"}),
        (node_with(Ready="True", unschedulable=True), {"unschedulable"}),
        (node_with(Ready="True", MemoryPressure="True", DiskPressure="False"), {"memory-pressure"}),
        (
            node_with(Ready="True", PIDPressure="True", NetworkUnavailable="True"),
            {"pid-pressure", "network-unavailable"},
        ),
    ],
)
def test_every_bad_condition_has_its_taint(made: Node, keys: set[str]) -> None:
    assert no_schedule_keys(made) == {f"node.kubernetes.io/{key}" for key in keys}


def test_pods_leave_only_nodes_that_are_not_ready_or_silent() -> None:
    assert no_execute_key(node_with(Ready="True", MemoryPressure="True")) == ""
    assert no_execute_key(node_with(Ready="False")) == NOT_READY
    assert no_execute_key(node_with(Ready="Unknown")) == UNREACHABLE


def toleration(key: str, seconds: int | None) -> Toleration:
    stated: dict[str, Any] = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return from_dict(Toleration, stated if seconds is None else {**stated, "tolerationSeconds": seconds})


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([toleration("a", None)], 0.0),
        ([toleration("a", None), toleration("b", None)], None),
        ([toleration("a", 300), toleration("b", 60)], 60.0),
        ([toleration("a", None), toleration("b", 60)], 60.0),
        ([toleration("a", -5), toleration("b", 60)], 0.0),
    ],
)
def test_the_shortest_toleration_decides_and_each_taint_needs_one(
    tolerations: list[Toleration], expected: float | None
) -> None:
    taints = [Taint(key=key, effect="NoExecute") for key in ("a", "b")]
    assert eviction_delay(taints, tolerations) == expected


def test_other_tasks_run_while_the_health_of_many_nodes_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = [0]
    """The number of nodes that were checked in each turn of the loop."""
    observe = NodeLifecycleController._observe

    def observed(self: NodeLifecycleController, node: Node) -> Any:
        if not checked[-1]:
            asyncio.get_running_loop().call_soon(checked.append, 0)
        checked[-1] += 1
        return observe(self, node)

    async def test(world: World) -> None:
        for number in range(40):
            await node(world, f"n{number}")
        checked[:] = [0]
        await world.clock.sleep(6)

    monkeypatch.setattr(lifecycle, "_TURN", 10)
    monkeypatch.setattr(NodeLifecycleController, "_observe", observed)
    play(NodeLifecycleController, test)
    assert [number for number in checked if number][:4] == [10, 10, 10, 10]
