"""Pods of a gang wait for each other before the queue (docs/spec/scheduling.md §14)."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict
from tests.running import run_with
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.world import World, play

GATES = {"GenericWorkload": True}


def member(name: str) -> Pod:
    return pod(name, schedulingGroup={"podGroupName": "g"})


async def make_group(world: World, **policy: Any) -> None:
    body = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": policy}}
    await world.create(from_dict(PodGroup, body))


async def conditions(world: World) -> list[tuple[str, str, str]]:
    group = await world.api(PodGroup).get("g")
    return [(one.type, one.status, one.reason) for one in group.status.conditions]


@run_with(lambda test: play(test, gates=GATES))
async def test_a_gang_enters_the_queue_when_it_is_complete(world: World) -> None:
    await make_group(world, gang={"minCount": 2})
    await world.create(node("n"), member("a"))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 1
    assert await conditions(world) == []
    await world.create(member("b"))
    await world.bound("a", "b")
    await world.quiet()
    assert await conditions(world) == [("PodGroupInitiallyScheduled", "True", "Scheduled")]


@run_with(lambda test: play(test, gates=GATES))
async def test_pods_wait_for_their_group(world: World) -> None:
    await world.create(node("n"), member("a"))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 1
    await make_group(world, basic={})
    await world.bound("a")


@run_with(play)
async def test_without_the_feature_no_pod_waits(world: World) -> None:
    await world.create(node("n"), member("a"))
    await world.bound("a")
