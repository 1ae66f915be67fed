"""From pools to slices that the API server accepts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import meta_v1
from cathedra.api.struct import Time, replace
from cathedra.driver import Device, Pool, PoolError, Version
from cathedra.driver.device import attribute
from cathedra.driver.publishing.layout import (
    DesiredPool,
    DesiredSlice,
    Publisher,
    adopt_taint_times,
    check,
    lay_out,
    plan,
)

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


OWNER = meta_v1.OwnerReference(api_version="v1", kind="Node", name="n", uid="u", controller=True)
PUBLISHER = Publisher("d.example.com", OWNER, "n")


def pool(*slices: Sequence[str], generation: int = 0) -> DesiredPool:
    return DesiredPool(
        "p",
        tuple(DesiredSlice(tuple(resource.Device(name=name) for name in names)) for names in slices),
        generation=generation,
    )


def carry_out(desired: DesiredPool, existing: Sequence[resource.ResourceSlice]) -> list[resource.ResourceSlice]:
    """Return the slices of the cluster after the plan."""
    todo = plan(desired, existing, PUBLISHER)
    gone = {s.metadata.name for s in todo.delete}
    updated = {s.metadata.name: s for s in todo.update.values()}
    kept = [updated.get(s.metadata.name, s) for s in existing if s.metadata.name not in gone]
    names = {s.metadata.name for s in existing}
    for new in todo.create.values():
        name = next(n for n in (f"{new.metadata.generate_name}{i:05d}" for i in range(100)) if n not in names)
        names.add(name)
        kept.append(replace(new, metadata=replace(new.metadata, name=name, generate_name="")))
    return kept


NAMES = st.lists(st.sampled_from("abcdef"), max_size=3, unique=True)
POOLS = st.lists(NAMES, min_size=1, max_size=4).map(lambda slices: pool(*slices))


@given(st.lists(POOLS, min_size=1, max_size=5))
def test_after_any_history_the_cluster_shows_exactly_the_last_pool(history: list[DesiredPool]) -> None:
    existing: list[resource.ResourceSlice] = []
    generation = 0
    for desired in history:
        existing = carry_out(desired, existing)
        generations = {s.spec.pool.generation for s in existing}
        assert len(generations) == 1
        assert min(generations) >= generation
        (generation,) = generations
        ordered = sorted(existing, key=lambda s: s.metadata.name)
        assert tuple(s.spec.devices for s in ordered) == tuple(part.devices for part in desired.slices)
        assert {s.spec.pool.resource_slice_count for s in existing} == {len(desired.slices)}
        assert plan(desired, existing, PUBLISHER).empty


def test_one_changed_slice_keeps_the_generation_and_two_do_not() -> None:
    existing = carry_out(pool("a", "b"), [])
    one, two = plan(pool("a", "c"), existing, PUBLISHER), plan(pool("c", "d"), existing, PUBLISHER)
    assert (one.generation, set(one.update)) == (1, {1})
    assert (two.generation, set(two.update)) == (2, {0, 1})


def test_generation_that_the_driver_asks_for_rewrites_everything() -> None:
    existing = carry_out(pool("a", "b"), [])
    todo = plan(pool("a", "b", generation=7), existing, PUBLISHER)
    assert (todo.generation, set(todo.update)) == (7, {0, 1})


def test_slices_with_foreign_names_old_generations_and_taken_places_are_obsolete() -> None:
    (good,) = carry_out(pool("a"), [])
    foreign = replace(good, metadata=replace(good.metadata, name="something-else"))
    old = replace(good, spec=replace(good.spec, pool=replace(good.spec.pool, generation=0)))
    twin = replace(good, metadata=replace(good.metadata, name=good.metadata.name[:-1] + "9"))
    todo = plan(pool("a"), [foreign, old, twin, good], PUBLISHER)
    assert {s.metadata.name for s in todo.delete} == {foreign.metadata.name, old.metadata.name, twin.metadata.name}
    assert (todo.update, todo.create, todo.generation) == ({}, {}, 1)


def test_names_begin_with_the_slices_number_in_hexadecimal() -> None:
    todo = plan(pool(*("a" for _ in range(17))), [], PUBLISHER)
    assert todo.create[16].metadata.generate_name == "00010-d.example.com-n-"


def tainted(time: Time | None) -> DesiredPool:
    taint = resource.DeviceTaint(key="k", effect="NoSchedule", time_added=time)
    return DesiredPool("p", (DesiredSlice((resource.Device(name="a", taints=(taint,)),)),))


def test_time_of_a_taint_is_kept_where_the_driver_gives_none_or_nearly_the_same() -> None:
    existing = carry_out(tainted(Time(1000)), [])
    assert plan(tainted(None), existing, PUBLISHER).empty
    assert plan(tainted(Time(1001)), existing, PUBLISHER).empty
    assert set(plan(tainted(Time(1002)), existing, PUBLISHER).update) == {0}


def test_every_unchanged_taint_of_a_device_keeps_its_time() -> None:
    """kubernetes/kubernetes#141107: not only the first one."""
    first = resource.DeviceTaint(key="a", effect="NoSchedule", time_added=Time(100))
    second = resource.DeviceTaint(key="b", effect="NoExecute", time_added=Time(200))
    present = resource.Device(name="x", taints=(first, second))
    added = resource.DeviceTaint(key="c", effect="NoExecute")
    wanted = resource.Device(
        name="x", taints=(replace(second, time_added=None), added, replace(first, time_added=None))
    )
    (adopted,) = adopt_taint_times([wanted], [present])
    assert [(taint.key, taint.time_added) for taint in adopted.taints] == [
        ("b", Time(200)),
        ("c", None),
        ("a", Time(100)),
    ]
