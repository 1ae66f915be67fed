"""Largest requests and stranded devices."""

from __future__ import annotations

from cathedra.advisor.advisor import Advisor
from cathedra.api.core.core_v1 import Node
from cathedra.api.struct import replace
from tests.running import run_with
from tests.unit.advisor.test_devices import held
from tests.unit.advisor.world import World, with_world
from tests.unit.scheduler.objects import DRIVER, device_class, node, pod, slice_


async def renewed(world: World) -> Advisor:
    advisor = world.advise()
    await world.clock.sleep(12)
    return advisor


@run_with(with_world)
async def test_the_largest_request_is_that_of_the_emptiest_node(world: World) -> None:
    await world.create(node("n2"), slice_("n2", 7), held("gpu-3", "n2"), device_class("none", "other.example.com"))
    assert (await renewed(world)).capacity.largest == {"gpu": 6, "none": 0}


@run_with(with_world)
async def test_free_devices_that_no_pod_can_reach_are_stranded(world: World) -> None:
    await world.create(node("full", cpu="2"), slice_("full", 3), node("n3"), slice_("n3", driver="x.example.com"))
    await world.create(pod("big", requests={"cpu": "2"}))
    await world.bind("big", "full")
    await world.change(Node, "n1", lambda one: replace(one, spec=replace(one.spec, unschedulable=True)))
    advisor = await renewed(world)
    assert dict(advisor.capacity.stranded) == {
        (DRIVER, "node cordoned"): 2,
        (DRIVER, "node full"): 3,
        ("x.example.com", "class"): 2,
    }


@run_with(with_world)
async def test_nothing_is_searched_while_nothing_changes(world: World) -> None:
    advisor = await renewed(world)
    before = advisor.capacity.largest
    await world.clock.sleep(60)
    assert advisor.capacity.largest is before


@run_with(with_world)
async def test_further_claims_of_some_sizes_are_counted_on_nodes_that_pods_can_reach(world: World) -> None:
    await world.create(node("n2"), slice_("n2", 7), held("gpu-3", "n2"), node("off"), slice_("off", 8))
    await world.change(Node, "off", lambda one: replace(one, spec=replace(one.spec, unschedulable=True)))
    further = (await renewed(world)).capacity.further
    # Six devices are free on one node, and two on the node that every world has.
    assert {size: number for (name, size), number in further.items() if name == "gpu"} == {
        "1": 8,
        "2": 4,
        "4": 1,
        "8": 0,
    }
