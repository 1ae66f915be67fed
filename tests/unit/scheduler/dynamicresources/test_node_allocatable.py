"""Devices that are part of their node (docs/spec/scheduling.md §13)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.resource import AllocationResult, ResourceSlice
from cathedra.api.struct import from_dict, to_dict
from cathedra.client.store import Store
from cathedra.scheduler.dynamicresources.node_allocatable import (
    ClaimUse,
    NodeAllocatable,
    NodeMappings,
    Unaccountable,
    refusal,
    with_statuses,
)
from cathedra.scheduler.state.node_info import NodeInfo
from tests.running import run_with
from tests.unit.scheduler.objects import DRIVER, claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

GATES = {"DRANodeAllocatableResources": True}


def user(name: str, *claims: str, cpu: str = "1", **spec: Any) -> Pod:
    """A pod whose container refers to all of its claims."""
    entries = [{"name": f"e{i}", "resourceClaimName": used} for i, used in enumerate(claims)]
    resources = {"requests": {"cpu": cpu}, "claims": [{"name": entry["name"]} for entry in entries]}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return pod(name, resourceClaims=entries, containers=containers, **spec)


def cores(count: str, **overhead: str) -> dict[str, Any]:
    """Node resources of a device that stands for cpu."""
    return {"cpu": {"mapping": {"deviceMultiplier": count}} | ({"overhead": overhead} if overhead else {})}


async def furnish(world: World, resources: dict[str, Any], *, devices: int = 2, cpu: str = "4") -> None:
    await world.create(device_class(), node("n1", cpu=cpu))
    await world.create(slice_("n1", devices, nodeAllocatableResources=resources))


@run_with(lambda test: play(test, gates=GATES))
async def test_devices_count_against_the_node_and_the_pod_says_so(world: World) -> None:
    await furnish(world, cores("2", perPod="100m", perContainer="50m"))
    await world.create(claim("c1"), user("p1", "c1"))
    await world.quiet()
    assert await world.node_of("p1") == "n1"
    [status] = (await world.pod("p1")).status.node_allocatable_resource_claim_statuses
    assert to_dict(status) == {
        "resourceClaimName": "c1",
        "containers": ["c"],
        "mapping": [{"name": "cpu", "quantity": "2"}],
        "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "50m"}],
    }
    await world.create(claim("c2"), user("p2", "c2", cpu="0"))
    await world.quiet()
    reason, message = await world.condition("p2")
    assert reason == "Unschedulable"
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    await world.api(Pod).delete("p1", grace_period_seconds=0)
    await world.quiet()
    assert await world.node_of("p2") == "n1"


@run_with(lambda test: play(test, gates=GATES))
async def test_a_claim_with_a_mapped_device_is_for_one_pod(world: World) -> None:
    await furnish(world, cores("1"))
    await world.create(claim("c"), user("p1", "c"))
    await world.quiet()
    await world.create(user("p2", "c"))
    await world.quiet()
    assert (
        "node allocatable resource claim c has a mapped device and cannot be shared across pods"
        in (await world.condition("p2"))[1]
    )


@run_with(lambda test: play(test, gates=GATES))
async def test_pod_level_requests_must_cover_the_devices(world: World) -> None:
    await furnish(world, cores("2"))
    await world.create(claim("c"), user("p", "c", resources={"requests": {"cpu": "2"}}))
    await world.quiet()
    assert (
        "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"
    ) in (await world.condition("p"))[1]


@run_with(play)
async def test_without_the_feature_devices_take_nothing(world: World) -> None:
    await furnish(world, cores("100"))
    await world.create(claim("c"), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    assert (await world.pod("p")).status.node_allocatable_resource_claim_statuses == ()


def statuses(resources: dict[str, Any], **result: Any) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return the resources that one allocated device takes."""
    slices: Store[ResourceSlice] = Store()
    known = NodeAllocatable(slices)
    slices.put(slice_("n1", 1, nodeAllocatableResources=resources))
    return known.statuses([ClaimUse(claim("c", exactly()), allocated(**result), ("a", "b"))], node("n1"))


def allocated(**result: Any) -> AllocationResult:
    """Return the allocation of one device."""
    one = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **result}
    return from_dict(AllocationResult, {"devices": {"results": [one]}})


def test_a_capacity_times_its_multiplier_is_what_a_share_takes() -> None:
    by_capacity = {"memory": {"mapping": {"capacityKey": "ram", "capacityMultiplier": "1500m"}}}
    [status] = statuses(by_capacity, consumedCapacity={f"{DRIVER}/ram": "2Gi"})
    assert str(status.mapping[0].quantity) == "3Gi"
    assert statuses(by_capacity, consumedCapacity={"other": "2Gi"}) == ()
    with pytest.raises(Unaccountable, match="ConsumedCapacity is nil, but Capacity key 'ram' is set"):
        statuses(by_capacity)


def test_a_device_that_has_vanished_takes_nothing() -> None:
    assert statuses(cores("1"), device="gpu-7") == ()


@pytest.mark.parametrize(
    ("cpu", "used", "expected"),
    [("4", "1", None), ("4", "3", "Unschedulable"), ("1", "0", "UnschedulableAndUnresolvable")],
)
def test_only_a_node_that_is_too_small_is_hopeless(cpu: str, used: str, expected: str | None) -> None:
    from cathedra.scheduler.state.pod_info import PodInfo

    info = NodeInfo(node("n1", cpu=cpu))
    info.add(PodInfo(pod("other", requests={"cpu": used})))
    counted = with_statuses(pod("p"), statuses(cores("2")))
    answer = refusal(counted, info)
    assert (answer.code.value if answer is not None else None) == expected


# Devices that are part of their node, in the form of 1.36 (docs/spec/scheduling.md §13).


async def furnish_node_mappings(world: World, mappings: dict[str, Any], *, cpu: str = "4") -> None:
    """A node with two devices that are part of it."""
    await world.create(device_class(), node("n1", cpu=cpu))
    await world.create(slice_("n1", 2, nodeAllocatableResourceMappings=mappings))


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_devices_count_against_the_node_and_the_pod_says_so_node_mappings(world: World) -> None:
    await furnish_node_mappings(world, {"cpu": {"allocationMultiplier": "2"}})
    await world.create(claim("c1"), user("p1", "c1"))
    await world.bound("p1")
    [status] = (await world.pod("p1")).status.node_allocatable_resource_claim_statuses
    assert to_dict(status) == {"resourceClaimName": "c1", "containers": ["c"], "resources": {"cpu": "2"}}
    await world.create(pod("p2", requests={"cpu": "2"}))
    await world.quiet()
    assert "1 Insufficient cpu." in (await world.condition("p2"))[1]


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_claim_belongs_to_the_pod_that_counts_it(world: World) -> None:
    await furnish_node_mappings(world, {"cpu": {"allocationMultiplier": "1"}})
    await world.create(claim("c"), user("p1", "c"))
    await world.bound("p1")
    await world.create(user("p2", "c"))
    await world.quiet()
    assert "node allocatable resource claim c is already used by another pod" in (await world.condition("p2"))[1]


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_claim_that_no_container_uses_is_refused(world: World) -> None:
    await furnish_node_mappings(world, {"cpu": {"allocationMultiplier": "1"}})
    entries = [{"name": "e", "resourceClaimName": "c"}]
    await world.create(claim("c"), pod("p", resourceClaims=entries))
    await world.quiet()
    expected = "claim c: node-allocatable resource claim not referenced by any container within the pod"
    assert expected in (await world.condition("p"))[1]


def statuses_node_mappings(mappings: dict[str, Any], **result: Any) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return the resources of its node that one allocated device is, by the mappings of 1.36."""
    slices: Store[ResourceSlice] = Store()
    known = NodeMappings(slices)
    slices.put(slice_("n1", 1, nodeAllocatableResourceMappings=mappings))
    return known.statuses([ClaimUse(claim("c", exactly()), allocated(**result), ("a",))], node("n1"))


def test_a_capacity_times_its_multiplier_is_what_a_share_is() -> None:
    by_capacity = {"memory": {"capacityKey": "ram", "allocationMultiplier": "1500m"}}
    [status] = statuses_node_mappings(by_capacity, consumedCapacity={"ram": "2Gi"})
    assert str(status.resources["memory"]) == "3Gi"
    assert statuses_node_mappings(by_capacity, consumedCapacity={"other": "2Gi"}) == ()
    with pytest.raises(Unaccountable, match="ConsumedCapacity is nil, but Capacity key 'ram' is set"):
        statuses_node_mappings(by_capacity)


def test_a_device_that_has_vanished_is_nothing() -> None:
    assert statuses_node_mappings({"cpu": {"allocationMultiplier": "1"}}, device="gpu-7") == ()
