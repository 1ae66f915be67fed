"""Devices that are part of their node, in the form of 1.36 (docs/spec/scheduling.md §13)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus
from cathedra.api.resource import AllocationResult, ResourceSlice
from cathedra.api.struct import from_dict, to_dict
from cathedra.client.store import Store
from cathedra.scheduler.dynamicresources.node_allocatable import ClaimUse, Unaccountable
from cathedra.scheduler.dynamicresources.node_mappings import NodeMappings
from tests.unit.scheduler.dynamicresources.test_node_allocatable import user
from tests.unit.scheduler.objects import DRIVER, claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

GATES = {"DRANodeAllocatableResources": True}


async def furnish(world: World, mappings: dict[str, Any], *, cpu: str = "4") -> None:
    """A node with two devices that are part of it."""
    await world.create(device_class(), node("n1", cpu=cpu))
    await world.create(slice_("n1", 2, nodeAllocatableResourceMappings=mappings))


def test_devices_count_against_the_node_and_the_pod_says_so() -> None:
    async def body(world: World) -> None:
        await furnish(world, {"cpu": {"allocationMultiplier": "2"}})
        await world.create(claim("c1"), user("p1", "c1"))
        await world.bound("p1")
        [status] = (await world.pod("p1")).status.node_allocatable_resource_claim_statuses
        assert to_dict(status) == {"resourceClaimName": "c1", "containers": ["c"], "resources": {"cpu": "2"}}
        await world.create(pod("p2", requests={"cpu": "2"}))
        await world.quiet()
        assert "1 Insufficient cpu." in (await world.condition("p2"))[1]

    play(body, gates=GATES, release="1.36")


def test_a_claim_belongs_to_the_pod_that_counts_it() -> None:
    async def body(world: World) -> None:
        await furnish(world, {"cpu": {"allocationMultiplier": "1"}})
        await world.create(claim("c"), user("p1", "c"))
        await world.bound("p1")
        await world.create(user("p2", "c"))
        await world.quiet()
        assert "node allocatable resource claim c is already used by another pod" in (await world.condition("p2"))[1]

    play(body, gates=GATES, release="1.36")


def test_a_claim_that_no_container_uses_is_refused() -> None:
    async def body(world: World) -> None:
        await furnish(world, {"cpu": {"allocationMultiplier": "1"}})
        entries = [{"name": "e", "resourceClaimName": "c"}]
        await world.create(claim("c"), pod("p", resourceClaims=entries))
        await world.quiet()
        expected = "claim c: node-allocatable resource claim not referenced by any container within the pod"
        assert expected in (await world.condition("p"))[1]

    play(body, gates=GATES, release="1.36")


def statuses(mappings: dict[str, Any], **result: Any) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """What one device that is being allocated is of its node."""
    slices: Store[ResourceSlice] = Store()
    known = NodeMappings(slices)
    slices.put(slice_("n1", 1, nodeAllocatableResourceMappings=mappings))
    allocated = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **result}
    allocation = from_dict(AllocationResult, {"devices": {"results": [allocated]}})
    return known.statuses([ClaimUse(claim("c", exactly()), allocation, ("a",))], node("n1"))


def test_a_capacity_times_its_multiplier_is_what_a_share_is() -> None:
    by_capacity = {"memory": {"capacityKey": "ram", "allocationMultiplier": "1500m"}}
    [status] = statuses(by_capacity, consumedCapacity={"ram": "2Gi"})
    assert str(status.resources["memory"]) == "3Gi"
    assert statuses(by_capacity, consumedCapacity={"other": "2Gi"}) == ()
    with pytest.raises(Unaccountable, match="ConsumedCapacity is nil, but Capacity key 'ram' is set"):
        statuses(by_capacity)


def test_a_device_that_has_vanished_is_nothing() -> None:
    assert statuses({"cpu": {"allocationMultiplier": "1"}}, device="gpu-7") == ()
