"""Counter sets are where the release of the server expects them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.driver import Device, Pool
from cathedra.driver.publishing.controller import ResourceSliceController, SliceScope
from cathedra.driver.publishing.counterslices import counters_apart, counters_at_devices
from cathedra.driver.publishing.layout import DesiredPool, lay_out
from tests.unit.driver.world import DRIVER, NODE, World, in_virtual_time

TAKES = {"memory": "10Gi"}


def pool_of(*devices: Sequence[str], unused: int = 0, size: int = 1) -> DesiredPool:
    """A pool whose devices consume from the named sets of ``size`` counters; further sets have no device."""
    names = [*dict.fromkeys(name for one in devices for name in one), *(f"unused-{i}" for i in range(unused))]
    amounts = {"memory": "80Gi", **{f"engine-{i}": "1" for i in range(size - 1)}}
    made = [Device(f"d-{i}", consumes=dict.fromkeys(one, TAKES)) for i, one in enumerate(devices)]
    return lay_out([Pool(devices=made, counters=dict.fromkeys(names, amounts))], NODE)[NODE]


def shape(pool: DesiredPool) -> list[tuple[list[str], list[str]]]:
    return [([one.name for one in part.shared_counters], [one.name for one in part.devices]) for part in pool.slices]


def test_devices_and_their_counters_are_in_one_slice() -> None:
    pool = pool_of(["a"], ["b"], ["a"], [])
    assert shape(pool) == [(["a", "b"], []), ([], ["d-0", "d-1", "d-2", "d-3"])]
    assert shape(counters_at_devices(pool)) == [(["a", "b"], ["d-0", "d-2", "d-1", "d-3"])]


def test_a_slice_has_no_more_counters_than_the_server_accepts() -> None:
    pool = pool_of(["a"], ["b"], ["c"], size=15)
    assert shape(counters_at_devices(pool)) == [(["a", "b"], ["d-0", "d-1"]), (["c"], ["d-2"])]


def test_a_device_of_two_sets_joins_their_devices() -> None:
    pool = pool_of(["a"], ["b"], ["a", "b"], size=15)
    assert shape(counters_at_devices(pool)) == [(["a", "b"], ["d-0", "d-1", "d-2"])]


def test_a_pool_without_counters_is_returned_as_it_is() -> None:
    pool = pool_of([], [])
    assert counters_at_devices(pool) is pool
    assert counters_apart(pool) is pool


@given(
    st.lists(st.lists(st.sampled_from("abcde"), max_size=2, unique=True), max_size=200),
    st.integers(0, 3),
    st.integers(1, 8),
)
def test_no_device_is_lost_and_each_finds_its_counters(devices: list[list[str]], unused: int, size: int) -> None:
    pool = pool_of(*devices, unused=unused, size=size)
    together = counters_at_devices(pool)
    for part in together.slices:
        names = {one.name for one in part.shared_counters}
        assert all(one.counter_set in names for device in part.devices for one in device.consumes_counters)
    for changed in (together, counters_apart(together)):
        found = [one.name for part in changed.slices for one in part.devices]
        assert sorted(found) == sorted(f"d-{i}" for i in range(len(devices)))
        assert sorted(one.name for part in changed.slices for one in part.shared_counters) == sorted(
            one.name for part in pool.slices for one in part.shared_counters
        )
    assert counters_at_devices(together) is together
    assert not any(part.devices and part.shared_counters for part in counters_apart(together).slices)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.34", [(["a"], ["d-0", "d-1"])]),
        ("1.35", [(["a"], []), ([], ["d-0", "d-1"])]),
        ("1.37", [(["a"], []), ([], ["d-0", "d-1"])]),
    ],
)
def test_the_controller_publishes_what_the_server_accepts(
    release: str, expected: list[tuple[list[str], list[str]]]
) -> None:
    errors: list[Exception] = []

    async def test(world: World) -> None:
        controller = ResourceSliceController(
            world.client, DRIVER, SliceScope(NODE), clock=world.clock, on_error=lambda error, _: errors.append(error)
        )
        controller.update({NODE: pool_of(["a"], ["a"])})
        running = asyncio.create_task(controller.run())
        await controller.wait_published()
        running.cancel()
        found = sorted(await world.slices(), key=lambda one: one.metadata.name)
        parts = [
            ([each.name for each in one.spec.shared_counters], [each.name for each in one.spec.devices])
            for one in found
        ]
        assert parts == expected

    in_virtual_time(test, release, DRAPartitionableDevices=True)
    assert errors == []
