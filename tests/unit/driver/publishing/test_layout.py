"""From pools to slices that the API server accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.driver import Device, Pool, PoolError, Version
from cathedra.driver.device import attribute
from cathedra.driver.publishing.layout import DesiredPool, check, lay_out

TAINT = resource.DeviceTaint(key="k", effect="NoSchedule")


def one(pool: Pool) -> DesiredPool:
    return lay_out([pool], "node-a")[pool.name or "node-a"]


def sizes(pool: Pool) -> list[int]:
    return [len(part.devices) for part in one(pool).slices]


@given(st.lists(st.booleans(), max_size=400))
def test_devices_keep_their_order_and_no_slice_exceeds_its_limit(tainted: list[bool]) -> None:
    devices = [Device(f"d-{i}", taints=[TAINT] if bad else []) for i, bad in enumerate(tainted)]
    desired = one(Pool(devices=devices))
    assert [d.name for part in desired.slices for d in part.devices] == [d.name for d in devices]
    for part in desired.slices:
        assert len(part.devices) <= (64 if any(d.taints for d in part.devices) else 128)


def test_expensive_devices_halve_a_slice() -> None:
    plain = [Device(f"d-{i}") for i in range(130)]
    listed = [Device(f"d-{i}", attributes={"numa": [0, 1]}) for i in range(130)]
    assert sizes(Pool(devices=plain)) == [128, 2]
    assert sizes(Pool(devices=listed)) == [64, 64, 2]


def test_counters_get_slices_of_their_own_before_the_devices() -> None:
    counters = {f"gpu-{i}-counters": {"memory": "80Gi"} for i in range(9)}
    devices = [Device("part", consumes={"gpu-0-counters": {"memory": "40Gi"}})]
    slices = one(Pool(devices=devices, counters=counters)).slices
    assert [(len(s.shared_counters), len(s.devices)) for s in slices] == [(8, 0), (1, 0), (0, 1)]


def test_device_that_chooses_its_nodes_makes_the_whole_pool_choose_per_device() -> None:
    slices = one(Pool(devices=[Device("a", all_nodes=True)])).slices
    assert [part.per_device_node_selection for part in slices] == [True]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, resource.DeviceAttribute(bool_=True)),
        (1, resource.DeviceAttribute(int_=1)),
        ("x", resource.DeviceAttribute(string="x")),
        (Version("1.2.3"), resource.DeviceAttribute(version="1.2.3")),
        ([1, 2], resource.DeviceAttribute(ints=(1, 2))),
        ([True], resource.DeviceAttribute(bools=(True,))),
        (["a"], resource.DeviceAttribute(strings=("a",))),
        ([Version("1.0.0")], resource.DeviceAttribute(versions=("1.0.0",))),
    ],
)
def test_attributes_take_their_type_from_python(value: object, expected: resource.DeviceAttribute) -> None:
    assert attribute(value) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [[1, "a"], [], [1, True]])
def test_lists_of_mixed_types_are_refused(value: list[object]) -> None:
    with pytest.raises(TypeError, match="one type"):
        attribute(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (Pool(devices=[Device("a"), Device("a")]), 'duplicate device name "a"'),
        (
            Pool(devices=[Device("a", consumes={"s": {"c": 1}})]),
            'counter set "s" referenced by device "a" not found',
        ),
        (
            Pool(devices=[Device("a", consumes={"s": {"c": 1}})], counters={"s": {"d": 1}}),
            'counter "c" referenced by device "a" not found in counter set "s"',
        ),
        (Pool(devices=[Device("a", attributes={"x.example.com/m": 1})]), "without the driver's own domain"),
    ],
)
def test_contradictions_are_found_before_anything_is_written(pool: Pool, message: str) -> None:
    with pytest.raises(PoolError, match=message):
        check(lay_out([pool], "node-a").values(), "x.example.com")


def test_two_pools_of_one_name_are_refused() -> None:
    with pytest.raises(PoolError, match="given twice"):
        lay_out([Pool(), Pool(name="node-a")], "node-a")
