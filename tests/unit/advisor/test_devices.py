"""Figures of devices: what they count, and that a change costs its own pool."""

from __future__ import annotations

from collections import Counter

from cathedra.advisor.advisor import Advisor
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace
from tests.running import run_with
from tests.unit.advisor.world import World, with_world
from tests.unit.scheduler.objects import DRIVER, claim, node, slice_


def held(device: str, pool: str = "n1") -> ResourceClaim:
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device}]
    status = from_dict(ResourceClaim, {"status": {"allocation": {"devices": {"results": results}}}}).status
    return replace(claim(f"{pool}-{device}"), status=status)


async def counted(advisor: Advisor, world: World) -> dict[str, Counter[str]]:
    await world.clock.sleep(1)
    while not advisor.figures.refresh(100):
        pass
    return advisor.figures.by_node()


@run_with(with_world)
async def test_devices_are_counted_by_node_and_state(world: World) -> None:
    await world.create(node("n2"), slice_("n2", 3, capacity={"memory": {"value": "80Gi"}}), held("gpu-0", "n2"))
    advisor = world.advise()
    assert await counted(advisor, world) == {"n1": {"free": 2}, "n2": {"free": 2, "held": 1}}
    assert advisor.figures.by_class() == {"gpu": 5}
    assert advisor.figures.pools[DRIVER, "n2"].capacity == {
        ("memory", "held"): 80 * 1024**3,
        ("memory", "free"): 160 * 1024**3,
    }


@run_with(with_world)
async def test_a_change_costs_the_pools_that_it_concerns(world: World) -> None:
    await world.create(node("n2"), slice_("n2"))
    advisor = world.advise()
    await counted(advisor, world)
    await world.create(held("gpu-1"))
    await world.clock.sleep(0.5)
    assert advisor.figures.waiting == 1
    assert (await counted(advisor, world))["n1"] == {"free": 1, "held": 1}
    await world.delete(ResourceClaim, "n1-gpu-1")
    assert (await counted(advisor, world))["n1"] == {"free": 2}


@run_with(with_world)
async def test_a_device_that_is_held_and_gone_is_counted_as_such(world: World) -> None:
    await world.create(held("gpu-7"))
    advisor = world.advise()
    assert (await counted(advisor, world))[""] == {"gone": 1}
