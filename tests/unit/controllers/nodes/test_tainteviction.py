"""Pods leave tainted nodes, unless they tolerate it."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import (
    NodeCondition,
    NodeStatus,
    Taint,
    Toleration,
)
from cathedra.api.struct import Time, replace
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.nodes.lifecycle import NodeLifecycleController
from cathedra.controllers.nodes.tainteviction import TaintEvictionController
from tests.running import run_with
from tests.unit.controllers.nodes.objects import beat, node, pod, taints
from tests.unit.controllers.world import World, play


def for_seconds(seconds: int | None) -> Toleration:
    return Toleration(operator="Exists", effect="NoExecute", toleration_seconds=seconds)


@run_with(lambda test: play((NodeLifecycleController, TaintEvictionController), test))
async def test_when_every_node_is_down_nobody_is_evicted(world: World) -> None:
    await node(world, "only")
    await pod(world, "p", "only")
    await world.clock.sleep(1000)
    assert await taints(world, "only") == {("unreachable", "NoSchedule")}
    assert (await world.of(PODS).get("p")).metadata.deletion_timestamp is None


@run_with(lambda test: play((NodeLifecycleController, TaintEvictionController), test))
async def test_pods_stay_as_long_as_they_tolerate_the_taint(world: World) -> None:
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


@run_with(lambda test: play((NodeLifecycleController, TaintEvictionController), test))
async def test_a_taint_that_goes_in_time_cancels_the_eviction(world: World) -> None:
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


@run_with(lambda test: play((NodeLifecycleController, TaintEvictionController), test))
async def test_a_pod_that_is_being_deleted_is_evicted_all_the_same(world: World) -> None:
    await node(world, "a", "False")
    heart = asyncio.ensure_future(beat(world, "a", "b"))
    await node(world, "b")
    await pod(world, "p", "a", for_seconds(0))
    await world.of(PODS).delete("p")
    await world.clock.sleep(20)
    assert ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/p") in await world.events()
    heart.cancel()


async def tainted(world: World, *keys: str) -> None:
    """Node ``n`` has these NoExecute taints and no others."""
    taints = tuple(Taint(key=key, effect="NoExecute") for key in keys)
    await world.change(NODES, "n", lambda n: replace(n, spec=replace(n.spec, taints=taints)))
    await world.clock.sleep(0.5)


async def is_leaving(world: World, name: str = "p") -> bool:
    return (await world.of(PODS).get(name)).metadata.deletion_timestamp is not None


def under(key: str, seconds: int | None) -> Toleration:
    return Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


CANCELLED = ("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/p")
MARKED = ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/p")


@run_with(lambda test: play(TaintEvictionController, test))
async def test_an_eviction_that_is_ahead_stays_as_it_is_when_taints_change(world: World) -> None:
    await node(world, "n")
    await pod(world, "p", "n", under("x", 60), under("y", 10), under("z", 300))
    await tainted(world, "x")
    await tainted(world, "x", "y")
    await world.clock.sleep(20)
    assert not await is_leaving(world)
    await tainted(world, "z")
    await world.clock.sleep(60)
    assert await is_leaving(world)
    assert await world.events() == [MARKED]


@run_with(lambda test: play(TaintEvictionController, test))
async def test_a_taint_that_is_not_tolerated_cancels_what_is_ahead_and_evicts_at_once(world: World) -> None:
    await node(world, "n")
    await pod(world, "p", "n", under("x", 60))
    await tainted(world, "x")
    await tainted(world, "x", "y")
    assert await is_leaving(world)
    assert sorted(await world.events()) == [CANCELLED, MARKED]


@run_with(lambda test: play(TaintEvictionController, test))
async def test_a_pod_that_is_deleted_before_its_eviction_is_told(world: World) -> None:
    await node(world, "n")
    await pod(world, "p", "n", under("x", 60))
    await tainted(world, "x")
    await world.of(PODS).delete("p", grace_period_seconds=0)
    await world.quiet()
    assert await world.events() == [CANCELLED]


@run_with(lambda test: play(TaintEvictionController, test))
async def test_the_time_begins_when_the_taint_is_seen_and_not_when_it_says_it_was_added(world: World) -> None:
    await node(world, "n")
    await pod(world, "p", "n", under("x", 60))
    long_ago = Taint(key="x", effect="NoExecute", time_added=Time(world.clock.now() - 3600))
    await world.change(NODES, "n", lambda n: replace(n, spec=replace(n.spec, taints=(long_ago,))))
    await world.clock.sleep(50)
    assert not await is_leaving(world)
    await world.clock.sleep(20)
    assert await is_leaving(world)


@run_with(lambda test: play(TaintEvictionController, test))
async def test_of_several_tolerations_of_a_taint_the_first_counts(world: World) -> None:
    await node(world, "n")
    await pod(world, "p", "n", under("x", None), under("x", 5))
    await pod(world, "q", "n", under("x", 5), under("x", None))
    await tainted(world, "x")
    await world.clock.sleep(20)
    assert (await is_leaving(world), await is_leaving(world, "q")) == (False, True)
