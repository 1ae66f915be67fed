"""Pods without a node, and old ones that have ended."""

from __future__ import annotations

import asyncio

from cathedra.client.objects import with_metadata
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.nodes.podgc import PodGarbageCollector
from tests.unit.controllers.nodes.objects import node, pod
from tests.unit.controllers.world import World, play


def test_pods_of_a_deleted_node_are_failed_and_deleted_after_quarantine() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await pod(world, "p", "n1")
        await world.of(NODES).delete("n1")
        await world.clock.sleep(35)
        assert await world.names(PODS) == ["p"]
        await world.clock.sleep(30)
        assert await world.names(PODS) == []

    play(PodGarbageCollector, story)


def test_a_pod_that_is_being_deleted_and_has_no_node_is_failed_and_deleted() -> None:
    async def story(world: World) -> None:
        unscheduled = await pod(world, "p")
        await world.of(PODS).update(with_metadata(unscheduled, finalizers=("a.b/c",)))
        await world.of(PODS).delete("p")
        await world.clock.sleep(30)
        assert (await world.of(PODS).get("p")).status.phase == "Failed"

    play(PodGarbageCollector, story)


def test_ended_pods_above_the_threshold_go_oldest_first() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b", "c"):
            await pod(world, name)
            await world.finish(name)
            await asyncio.sleep(2)
        await world.clock.sleep(30)
        assert await world.names(PODS) == ["b", "c"]

    play(lambda context: PodGarbageCollector(context, terminated_threshold=2), story)
