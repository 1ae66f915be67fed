"""Findings on claims, classes, pools, drivers and nodes, when they have lasted."""

from __future__ import annotations

from cathedra.advisor.advisor import Advisor
from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from tests.running import run_with
from tests.unit.advisor.world import World, with_world
from tests.unit.scheduler.objects import DRIVER, claim, device_class, exactly, node, slice_

PLACE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}


def texts(advisor: Advisor) -> dict[tuple[str, str], str]:
    return {(one.kind, one.about.metadata.name): one.text for one in advisor.findings.lasting}


async def found(world: World) -> dict[tuple[str, str], str]:
    advisor = world.advise()
    await world.clock.sleep(20)
    assert texts(advisor) == {}
    await world.clock.sleep(30)
    return texts(advisor)


@run_with(with_world)
async def test_a_healthy_cluster_has_none(world: World) -> None:
    await world.create(claim("fits", exactly(count=2)))
    assert await found(world) == {}


@run_with(with_world)
async def test_classes_that_match_nothing_are_found(world: World) -> None:
    other = {"selectors": [{"cel": {"expression": 'device.driver.startsWith("x")'}}]}
    await world.create(device_class("silent", "fpga.example.com"), device_class("none", **other))
    assert await found(world) == {
        ("driver", "silent"): (
            "the class matches no device: driver fpga.example.com, which the class names, publishes no ResourceSlice"
        ),
        ("class", "none"): "the class matches none of 2 devices",
    }


@run_with(with_world)
async def test_an_incomplete_pool_and_its_node_are_found(world: World) -> None:
    await world.change(
        ResourceSlice,
        f"n1-{DRIVER}",
        lambda one: replace(one, spec=replace(one.spec, pool=replace(one.spec.pool, resource_slice_count=2))),
    )
    seen = await found(world)
    assert seen["pool", f"n1-{DRIVER}"].startswith(f"pool {DRIVER}/n1 is incomplete: generation 1 has 1 of 2 slices")
    assert seen["node", "n1"] == "no device of this node can be used: 2 incomplete pool"


@run_with(with_world)
async def test_a_driver_that_withdraws_its_devices_from_a_node_that_is_ready_is_found(world: World) -> None:
    advisor = world.advise()
    ready = from_dict(Node, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).status.conditions
    await world.change(Node, "n1", lambda one: replace(one, status=replace(one.status, conditions=ready)), status=True)
    await world.create(node("n2"), slice_("n2"))
    await world.clock.sleep(20)
    await world.delete(ResourceSlice, f"n1-{DRIVER}")
    await world.clock.sleep(60)
    assert texts(advisor)["driver", "n1"].startswith(f"driver {DRIVER} has withdrawn the devices of this node")


@run_with(with_world)
async def test_claims_that_no_pod_can_use_are_found(world: World) -> None:
    results = [{"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}]
    allocation = {"devices": {"results": results}, "nodeSelector": PLACE}
    lost = claim("lost")
    status = from_dict(ResourceClaim, {"status": {"allocation": allocation}}).status
    await world.create(replace(lost, status=status), claim("nine", exactly(count=9)))
    seen = await found(world)
    assert seen["claim", "lost"] == "no pod can use the claim: it is allocated on node gone, which does not exist"
    assert seen["claim", "nine"] == (
        "no pod can use the claim, even if all devices were free: request 'gpu' needs 9, 2 devices in reach"
    )


@run_with(with_world)
async def test_claims_beyond_those_of_one_round_are_tried_in_the_next_ones_and_stay_found(world: World) -> None:
    await world.create(*(claim(f"c{number}", exactly(count=3 + number)) for number in range(12)))
    advisor = world.advise()
    for number in range(12):
        await world.until_event(f"c{number}")
    found = {one.about.metadata.name for one in advisor.findings.lasting if one.kind == "claim"}
    assert found == {f"c{number}" for number in range(12)}
    await world.change(Node, "n1", lambda one: replace(one, metadata=replace(one.metadata, labels={"new": "yes"})))
    await world.clock.sleep(15)
    assert {one.about.metadata.name for one in advisor.findings.lasting if one.kind == "claim"} == found
