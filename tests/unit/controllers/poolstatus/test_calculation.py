"""Counting the devices of a pool."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.resource_v1alpha3 import (
    PartitionTypeStatus,
    PoolStatus,
)
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    AllocationResult,
    Counter,
    CounterSet,
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
from cathedra.controllers.poolstatus.calculation import Rules, pool_statuses, usage
from tests.unit.controllers.poolstatus.objects import slice_

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


def test_shares_are_summed_up() -> None:
    capacity = {"memory": DeviceCapacity(value=Quantity("40Gi"))}
    devices = [Device(name=name, allow_multiple_allocations=True, capacity=capacity) for name in "ab"]
    summary = only([slice_("s", *devices)], [held("a", memory="10Gi"), held("a", memory="5Gi")]).shareable_summary
    assert summary is not None
    assert (summary.fully_available_devices, summary.partially_available_devices) == (1, 1)
    (memory,) = summary.capacity
    assert (str(memory.total), str(memory.consumed), str(memory.available)) == ("80Gi", "15Gi", "65Gi")
