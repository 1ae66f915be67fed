"""GPUs that many claims have a share of, whole or in parts."""

from __future__ import annotations

from cathedra.api.quantity import Quantity
from cathedra.drivers.example.gpu import GpuOptions, GpuProfile
from cathedra.drivers.example.profile import Site

SITE = Site("gpu.example.com", "node-a")


def test_a_shared_gpu_is_asked_for_in_steps_and_taken_whole_by_default() -> None:
    (device,) = GpuProfile(GpuOptions(count=1, shared=True)).pool(SITE).devices
    made = device.to_api()
    policy = made.capacity["memory"].request_policy
    assert made.allow_multiple_allocations is True
    assert policy is not None
    assert policy.valid_range is not None
    assert (policy.default, policy.valid_range.min, policy.valid_range.step, policy.valid_range.max) == (
        Quantity("80Gi"),
        Quantity("1Gi"),
        Quantity("1Gi"),
        Quantity("80Gi"),
    )


def test_parts_of_a_gpu_can_be_shared_and_consume_the_counters_of_the_whole() -> None:
    pool = GpuProfile(GpuOptions(count=1, partitions=4, shared=True)).pool(SITE)
    part = pool.devices[0].to_api()
    assert part.capacity["memory"].request_policy is not None
    assert part.capacity["memory"].request_policy.default == Quantity("20Gi")
    assert part.consumes_counters[0].counters["memory"].value == Quantity("20Gi")
    assert pool.counters["gpu-0-counters"]["memory"] == Quantity("80Gi")


def test_without_sharing_a_capacity_has_no_policy() -> None:
    (device,) = GpuProfile(GpuOptions(count=1)).pool(SITE).devices
    assert device.to_api().capacity["memory"].request_policy is None
    assert device.to_api().allow_multiple_allocations is None
