"""Making room for a pod of higher priority (docs/spec/scheduling.md §15)."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.struct import from_dict
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.world import World, play


async def crowd(world: World, **priorities: int) -> None:
    """A node with two cpus that pods wait for, one after the other."""
    await world.create(node("n", cpu="2"))
    for name, priority in priorities.items():
        await world.create(from_dict(PriorityClass, {"metadata": {"name": name}, "value": priority}))
        await world.create(pod(name, requests={"cpu": "2"}, priorityClassName=name))
        await world.quiet()


async def nominated(world: World, name: str) -> str:
    return (await world.pod(name)).status.nominated_node_name


def test_room_that_was_being_made_for_a_pod_that_is_deleted_is_there_for_the_next() -> None:
    async def body(world: World) -> None:
        await crowd(world, low=1, high=100, mid=10)
        assert (await nominated(world, "high"), await nominated(world, "mid")) == ("n", "")
        await world.api(Pod).delete("high", grace_period_seconds=0)
        await world.quiet()
        assert await nominated(world, "mid") == "n"

    play(body)


def test_a_nomination_ends_when_there_is_no_room_to_be_made_any_more() -> None:
    async def body(world: World) -> None:
        await crowd(world, low=1, high=100, top=1000)
        assert await nominated(world, "high") == "n"
        await world.api(Pod).delete("low", grace_period_seconds=0)
        await world.bound("top")
        await world.quiet()
        assert await nominated(world, "high") == ""

    play(body)
