"""Requests for the status of pools are answered once, and rightly."""

from __future__ import annotations

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.resource_v1alpha3 import (
    PartitionTypeStatus,
    PoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
)
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    CounterSetConsumption,
    CounterValueFrom,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCEPOOLSTATUSREQUESTS, RESOURCESLICES
from cathedra.controllers.poolstatus import ResourcePoolStatusRequestController, Rules, pool_statuses, usage
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.controllers.poolstatus_objects import slice_
from tests.unit.controllers.world import World, play

GATES = FeatureGates.for_release("1.37", {"DRAResourcePoolStatus": True})


def request(name: str = "q", **spec: object) -> ResourcePoolStatusRequest:
    made = ResourcePoolStatusRequestSpec(driver="d.example.com", **spec)  # type: ignore[arg-type]
    return ResourcePoolStatusRequest(metadata=ObjectMeta(name=name), spec=made)


async def status_of(world: World, name: str = "q") -> ResourcePoolStatusRequestStatus | None:
    return (await world.of(RESOURCEPOOLSTATUSREQUESTS).get(name)).status


@run_with(lambda test: play(ResourcePoolStatusRequestController, test, gates=GATES))
async def test_a_request_is_answered_and_goes_after_an_hour(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("s", Device(name="a")))
    await world.create(RESOURCEPOOLSTATUSREQUESTS, request())
    await world.quiet()
    answer = await status_of(world)
    assert answer is not None
    assert (answer.pool_count, len(answer.pools), answer.pools[0].total_devices) == (1, 1, 1)
    (condition,) = answer.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "Complete",
        "True",
        "CalculationComplete",
        "Calculated status for 1 pools",
    )
    await world.clock.sleep(3500)
    assert await world.names(RESOURCEPOOLSTATUSREQUESTS) == ["q"]
    await world.clock.sleep(800)
    assert await world.names(RESOURCEPOOLSTATUSREQUESTS) == []


@pytest.mark.parametrize(("limit", "shown"), [(1, 1), (2, 2), (5, 3), (None, 3)])
@run_with(lambda test: play(ResourcePoolStatusRequestController, test, gates=GATES))
async def test_no_more_pools_are_shown_than_wanted_but_all_are_counted(
    world: World, *, limit: int | None, shown: int
) -> None:
    for pool in ("a", "b", "c"):
        made = slice_(pool, Device(name="d"))
        of_pool = replace(made.spec.pool, name=pool)
        await world.create(RESOURCESLICES, replace(made, spec=replace(made.spec, pool=of_pool)))
    await world.create(RESOURCEPOOLSTATUSREQUESTS, request(limit=limit))
    await world.quiet()
    answer = await status_of(world)
    assert answer is not None
    assert (answer.pool_count, [pool.pool_name for pool in answer.pools]) == (3, ["a", "b", "c"][:shown])
    assert answer.conditions[0].message == f"Calculated status for {shown} pools"


@run_with(lambda test: play(ResourcePoolStatusRequestController, test, gates=GATES))
async def test_no_matching_pool_is_an_answer_too(world: World) -> None:
    await world.create(RESOURCEPOOLSTATUSREQUESTS, request(pool_name="nowhere"))
    await world.quiet()
    answer = await status_of(world)
    assert answer is not None
    assert (answer.pool_count, answer.pools) == (0, ())


@run_with(lambda test: play(ResourcePoolStatusRequestController, test, gates=GATES))
async def test_an_incomplete_pool_leaves_the_request_pending(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("s", count=2))
    await world.create(RESOURCEPOOLSTATUSREQUESTS, request())
    await world.clock.sleep(100)
    assert await status_of(world) is None


NEW = Rules(views=True, is_tainted=lambda _, __, device: any(t.effect == "NoSchedule" for t in device.taints))

OLD = Rules(views=False, is_tainted=NEW.is_tainted)


def held(*devices: str, admin: bool | None = None, **consumed: str) -> ResourceClaim:
    results = tuple(
        DeviceRequestAllocationResult(
            request="r",
            driver="d.example.com",
            pool="pool",
            device=device,
            admin_access=admin,
            consumed_capacity={name: Quantity(amount) for name, amount in consumed.items()},
        )
        for device in devices
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    return ResourceClaim(metadata=ObjectMeta(name="c"), status=ResourceClaimStatus(allocation=allocation))


def only(slices: list[ResourceSlice], claims: list[ResourceClaim], rules: Rules = NEW) -> PoolStatus:
    (status,) = pool_statuses(slices, usage(claims, rules), rules)
    return status


def counts(status: PoolStatus) -> tuple[int | None, ...]:
    return (
        status.total_devices,
        status.allocated_devices,
        status.unavailable_devices,
        status.available_devices,
    )


def test_devices_are_counted_once_and_admin_access_only_by_older_releases() -> None:
    bad = Device(name="c", taints=(DeviceTaint(key="k", effect="NoSchedule"),))
    slices = [slice_("s", Device(name="a"), Device(name="b"), bad)]
    claims = [held("a"), held("a"), held("b", admin=True)]
    assert counts(only(slices, claims)) == (3, 1, 1, 1)
    assert counts(only(slices, claims, OLD)) == (3, 3, 0, 0)


def test_only_the_newest_generation_counts_and_nodes_must_agree() -> None:
    slices = [
        slice_("old", Device(name="x")),
        slice_("a", Device(name="a"), generation=2, count=2),
        slice_("b", Device(name="b"), generation=2, count=2, node="n2"),
    ]
    status = only(slices, [])
    assert (status.total_devices, status.node_name, status.generation) == (2, None, 2)


def test_an_incomplete_pool_has_no_counts() -> None:
    slices = [slice_("a", count=3, generation=7)]
    text = "pool d.example.com/pool is incomplete: observed 1/3 slices at generation 7"
    assert only(slices, []).validation_error == f"PoolIncomplete: {text}"
    assert only(slices, [], OLD).validation_error == text
    assert only(slices, []).total_devices is None


def partition(name: str, kind: str, memory: str) -> Device:
    use = DeviceCounterConsumption(counter_set="gpu", counters={"memory": Counter(value=Quantity(memory))})
    return Device(name=name, attributes={"profile": DeviceAttribute(string=kind)}, consumes_counters=(use,))


def test_partitions_that_still_fit_are_counted_each_type_on_its_own() -> None:
    devices = [partition(f"h{n}", "half", "20Gi") for n in range(2)]
    devices += [partition(f"q{n}", "quarter", "10Gi") for n in range(4)]
    counters = CounterSet(name="gpu", counters={"memory": Counter(value=Quantity("40Gi"))})
    spec = replace(slice_("s", *devices).spec, partition_type_attribute="d.example.com/profile")
    holder = replace(slice_("counters").spec, shared_counters=(counters,))
    slices = [
        ResourceSlice(metadata=ObjectMeta(name="s"), spec=spec),
        ResourceSlice(metadata=ObjectMeta(name="counters"), spec=holder),
    ]
    status = only(slices, [held("q0")])
    name = "d.example.com/profile"
    assert status.partition_summary == (
        PartitionTypeStatus(type="half", attribute=name, total=2, allocatable=1),
        PartitionTypeStatus(type="quarter", attribute=name, total=4, allocatable=3),
    )
    odd = replace(slices[0], spec=replace(spec, devices=(*devices, partition("q9", "quarter", "11Gi"))))
    broken = only([odd, slices[1]], [])
    assert (broken.validation_error or "").startswith("PartitionCostMismatch:")
    assert broken.total_devices == 7


def test_amounts_that_requests_took_of_counters_are_gone() -> None:
    memory = {"memory": Counter(value_from=CounterValueFrom(capacity_name="memory"))}
    use = DeviceCounterConsumption(counter_set="gpu", counters=memory)
    attributes = {"profile": DeviceAttribute(string="shared")}
    drawing = [
        Device(name=f"s{n}", attributes=attributes, allow_multiple_allocations=True, consumes_counters=(use,))
        for n in range(3)
    ]
    policy = CapacityRequestPolicy(valid_range=CapacityRequestPolicyRange(min=Quantity("10Gi")))
    counters = CounterSet(name="gpu", counters={"memory": Counter(value=Quantity("40Gi"), request_policy=policy)})
    spec = replace(
        slice_("s", *drawing).spec, partition_type_attribute="d.example.com/profile", shared_counters=(counters,)
    )
    claim = held("s0")
    allocation = claim.status.allocation
    assert allocation is not None
    taken = CounterSetConsumption(counter_set="gpu", counters={"memory": Quantity("25Gi")})
    (result,) = allocation.devices.results
    results = (replace(result, consumed_counters=(taken,)),)
    allocation = replace(allocation, devices=replace(allocation.devices, results=results))
    claim = replace(claim, status=replace(claim.status, allocation=allocation))
    (summary,) = only([ResourceSlice(metadata=ObjectMeta(name="s"), spec=spec)], [claim]).partition_summary
    assert (summary.total, summary.allocatable) == (3, 1)


def test_shares_are_summed_up() -> None:
    capacity = {"memory": DeviceCapacity(value=Quantity("40Gi"))}
    devices = [Device(name=name, allow_multiple_allocations=True, capacity=capacity) for name in "ab"]
    summary = only([slice_("s", *devices)], [held("a", memory="10Gi"), held("a", memory="5Gi")]).shareable_summary
    assert summary is not None
    assert (summary.fully_available_devices, summary.partially_available_devices) == (1, 1)
    (memory,) = summary.capacity
    assert (str(memory.total), str(memory.consumed), str(memory.available)) == ("80Gi", "15Gi", "65Gi")
