"""Execution of plans: on a simulated cluster with the real scheduler and controllers, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from cathedra.api.struct import from_dict, replace
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import LoopClock
from cathedra.insight.moving.applying import PlanStopped, carry_out
from cathedra.insight.moving.plan import plan_moves
from cathedra.insight.moving.report import MovePlan
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.copying import complete
from cathedra.insight.simulation.run import simulate_steps
from tests.unit.insight.moving.clusters import node, pod, state_of

FRAGMENTED = Path(__file__).parents[4] / "examples" / "insight" / "fragmented.yaml"
Step = Callable[[Client], Awaitable[None]]


def executed(state: ClusterState, plan: MovePlan, *before: Step) -> tuple[list[str], str, dict[str, bool]]:
    """Return the reports, the reason for which execution stopped, and the nodes that are cordoned afterwards."""
    reports: list[str] = []
    stopped: list[str] = []
    cordoned: dict[str, bool] = {}

    async def step(client: Client) -> None:
        clock = LoopClock(asyncio.get_running_loop(), 0.0)
        try:
            await carry_out(plan, state, client, clock=clock, report=reports.append)
        except* PlanStopped as group:
            stopped.extend(map(str, group.exceptions))
        for one in (await client.resource(NODES).list()).items:
            cordoned[one.metadata.name] = bool(one.spec.unschedulable)

    simulate_steps(state, [*before, step])
    return reports, "; ".join(stopped), cordoned


@pytest.fixture(scope="module")
def state() -> ClusterState:
    return complete(read_dump(FRAGMENTED))


@pytest.fixture(scope="module")
def plan(state: ClusterState) -> MovePlan:
    return plan_moves(state, ["pod/train"])


def test_a_plan_is_carried_out_until_its_pod_has_a_node(state: ClusterState, plan: MovePlan) -> None:
    reports, stopped, cordoned = executed(state, plan)
    assert stopped == ""
    assert reports == [
        "cordon node-0, so that no evicted pod comes back",
        "evict pod default/serve-0 and wait until it runs, as on node-1",
        "uncordon node-0",
        "pod default/train has node node-0",
    ]
    assert cordoned == {"node-0": False, "node-1": False}


def test_execution_stops_if_the_pod_is_another_one(state: ClusterState, plan: MovePlan) -> None:
    async def remove(client: Client) -> None:
        await client.resource(PODS, "default").delete("serve-0")

    _, stopped, cordoned = executed(state, plan, remove)
    assert stopped == "pod default/serve-0 is not the one of the plan any more"
    assert cordoned["node-0"] is False


def test_execution_stops_if_the_pod_that_needs_the_room_is_gone(state: ClusterState, plan: MovePlan) -> None:
    async def remove(client: Client) -> None:
        await client.resource(PODS, "default").delete("train", grace_period_seconds=0)

    reports, stopped, cordoned = executed(state, plan, remove)
    assert stopped == "pod default/train, which needs the room, is gone"
    assert (reports[-1], cordoned["node-0"]) == ("uncordon node-0", False)


def test_execution_stops_if_the_pod_has_got_a_node_in_another_way(state: ClusterState, plan: MovePlan) -> None:
    async def add_node(client: Client) -> None:
        for one in node("node-2", 8):
            ref: Any = NODES if one["kind"] == "Node" else RESOURCESLICES
            await client.resource(ref).create(from_dict(ref.type, one))

    _, stopped, _ = executed(state, plan, add_node)
    assert stopped == "pod default/train has a node already: node-2"


def test_execution_stops_if_the_devices_of_the_plan_have_been_taken(state: ClusterState, plan: MovePlan) -> None:
    (device,) = plan.moves[0].devices["default/serve-0-gpu"]
    driver, pool, name = device.split("/")

    async def take(client: Client) -> None:
        claims = client.resource(RESOURCECLAIMS, "default")
        made = from_dict(ResourceClaim, pod("other", 1)[1])
        made = await claims.create(replace(made, metadata=ObjectMeta(name="other", namespace="default")))
        result = DeviceRequestAllocationResult(request="gpu", driver=driver, pool=pool, device=name)
        allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
        await claims.update_status(replace(made, status=replace(made.status, allocation=allocation)))

    _, stopped, _ = executed(state, plan, take)
    assert stopped == f"device {device}, which the plan has for default/serve-0, is in use by claim default/other"


def test_a_node_that_was_cordoned_before_stays_so(state: ClusterState, plan: MovePlan) -> None:
    async def cordon(client: Client) -> None:
        found = await client.resource(NODES).get("node-0")
        spec = structs.replace(found.spec, unschedulable=True)
        await client.resource(NODES).update(structs.replace(found, spec=spec))

    _, stopped, cordoned = executed(state, plan, cordon)
    assert stopped == "pod default/train has no node after 120 s"
    assert cordoned["node-0"] is True


def test_a_plan_that_is_not_proved_is_refused(state: ClusterState, plan: MovePlan) -> None:
    _, stopped, _ = executed(state, structs.replace(plan, proved=False))
    assert stopped == "the plan is not proved by a simulation"


def test_a_plan_that_deletes_pods_without_a_controller_is_refused() -> None:
    parts = [node("a", 2), node("b", 1), pod("old", 1, "a", ["gpu-0"]), pod("new", 2)]
    given = complete(state_of(*parts))
    reports, stopped, _ = executed(given, plan_moves(given, ["pod/new"]))
    assert reports == []
    assert "is yours to take: no controller does it" in stopped
