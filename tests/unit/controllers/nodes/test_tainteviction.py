"""Pods leave tainted nodes, unless they tolerate it."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import (
    NodeCondition,
    NodeStatus,
    Toleration,
)
from cathedra.api.struct import Time, replace
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.nodes.lifecycle import NodeLifecycleController
from cathedra.controllers.nodes.tainteviction import TaintEvictionController
from tests.unit.controllers.nodes.objects import beat, node, pod, taints
from tests.unit.controllers.world import World, play


def for_seconds(seconds: int | None) -> Toleration:
    return Toleration(operator="Exists", effect="NoExecute", toleration_seconds=seconds)


def test_when_every_node_is_down_nobody_is_evicted() -> None:
    async def story(world: World) -> None:
        await node(world, "only")
        await pod(world, "p", "only")
        await world.clock.sleep(1000)
        assert await taints(world, "only") == {("unreachable", "NoSchedule")}
        assert (await world.of(PODS).get("p")).metadata.deletion_timestamp is None

    play((NodeLifecycleController, TaintEvictionController), story)


def test_pods_stay_as_long_as_they_tolerate_the_taint() -> None:
    async def story(world: World) -> None:
        await node(world, "dead", "False")
        heart = asyncio.ensure_future(beat(world, "dead", "live"))
        await node(world, "live")
        await pod(world, "now", "dead", for_seconds(0))
        await pod(world, "later", "dead", for_seconds(300))
        await pod(world, "never", "dead", for_seconds(None))
        await pod(world, "elsewhere", "live")
        await world.clock.sleep(20)

        async def leaving() -> list[str]:
            return [p.metadata.name for p in await world.list(PODS) if p.metadata.deletion_timestamp is not None]

        assert await leaving() == ["now"]
        marked = {c.type: c for c in (await world.of(PODS).get("now")).status.conditions}["DisruptionTarget"]
        assert (marked.reason, marked.message) == (
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        assert ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/now") in await world.events()
        await world.clock.sleep(250)
        assert await leaving() == ["now"]
        await world.clock.sleep(60)
        assert await leaving() == ["later", "now"]
        heart.cancel()

    play((NodeLifecycleController, TaintEvictionController), story)


def test_a_taint_that_goes_in_time_cancels_the_eviction() -> None:
    async def story(world: World) -> None:
        await node(world, "a", "False")
        await node(world, "b")
        heart = asyncio.ensure_future(beat(world, "a", "b"))
        await pod(world, "p", "a", for_seconds(300))
        await world.clock.sleep(100)
        ready = NodeCondition(type="Ready", status="True", last_heartbeat_time=Time(world.clock.now()))
        await world.change(NODES, "a", lambda n: replace(n, status=NodeStatus(conditions=(ready,))), status=True)
        await world.clock.sleep(600)
        assert (await world.of(PODS).get("p")).metadata.deletion_timestamp is None
        assert ("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/p") in await world.events()
        heart.cancel()

    play((NodeLifecycleController, TaintEvictionController), story)


def test_a_pod_that_is_being_deleted_is_evicted_all_the_same() -> None:
    async def story(world: World) -> None:
        await node(world, "a", "False")
        heart = asyncio.ensure_future(beat(world, "a", "b"))
        await node(world, "b")
        await pod(world, "p", "a", for_seconds(0))
        await world.of(PODS).delete("p")
        await world.clock.sleep(20)
        assert ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/p") in await world.events()
        heart.cancel()

    play((NodeLifecycleController, TaintEvictionController), story)
