"""Counters that devices consume, and groups that they must share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Allocation, Features
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.counters import Counters
from cathedra.allocation.search.matching import positions
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace, to_dict
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice


def posed(world: World) -> tuple[Counters, RequestOption]:
    prepared, problem = problem_of(world, [claim(exactly("r", 2))])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    counters = Candidates(problem, bases(tables, problem)).counters
    assert counters is not None
    return counters, tables.options[0]


def world(amounts: list[int], limit: int, *holding: str, **more: Any) -> World:
    """Devices «d0», «d1» … that consume these amounts of one counter."""
    made = [device(f"d{number}", consumes={"g": {"m": amount}}, **more) for number, amount in enumerate(amounts)]
    slices = [resource_slice(*made, count=2), resource_slice(name="sets", count=2, counters={"g": {"m": limit}})]
    return World(slices, [held(*holding)] if holding else ())


def admitted(counters: Counters, option: RequestOption, *placed: int, devices: int) -> list[int]:
    state = counters.first
    for position in placed:
        state = counters.after(option, state, position)
    return list(positions(counters.admitted(option, state, (1 << devices) - 1)))


def test_what_earlier_claims_hold_is_consumed_from_the_start() -> None:
    counters, option = posed(world([3, 2, 1], 4))
    assert admitted(counters, option, devices=3) == [0, 1, 2]
    counters, option = posed(world([3, 2, 1], 4, "d0"))
    assert admitted(counters, option, devices=3) == [2]


def test_a_device_without_counters_is_never_blocked() -> None:
    slices = [
        resource_slice(device("a", consumes={"g": {"m": 4}}), device("b"), count=2),
        resource_slice(name="sets", count=2, counters={"g": {"m": 4}}),
    ]
    counters, option = posed(World(slices))
    assert admitted(counters, option, 0, devices=2) == [1]
    assert counters.consumption(1) is None
    assert counters.consumption(0) is not None


def test_all_counters_of_all_sets_must_have_enough() -> None:
    slices = [
        resource_slice(
            device("both", consumes={"g": {"m": 1}, "h": {"n": 2}}),
            device("first", consumes={"g": {"m": 1}}),
            device("second", consumes={"h": {"n": 1}}),
            count=2,
        ),
        resource_slice(name="sets", count=2, counters={"g": {"m": 9}, "h": {"n": 2}}),
    ]
    counters, option = posed(World(slices))
    assert admitted(counters, option, 0, devices=3) == [1]
    assert admitted(counters, option, 2, devices=3) == [1, 2]


def test_equal_consumers_are_told_apart_by_nothing() -> None:
    counters, _ = posed(world([2, 2, 3], 9))
    assert counters.consumption(0) == counters.consumption(1) != counters.consumption(2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 10), st.data())
def test_what_is_admitted_is_what_is_left(amounts: list[int], limit: int, data: st.DataObject) -> None:
    counters, option = posed(world(amounts, limit))
    state, used, free = counters.first, 0, set(range(len(amounts)))
    while True:
        fitting = {position for position in range(len(amounts)) if used + amounts[position] <= limit}
        assert set(positions(counters.admitted(option, state, (1 << len(amounts)) - 1))) == fitting
        if not free & fitting:
            return
        position = data.draw(st.sampled_from(sorted(free & fitting)))
        free.remove(position)
        state, used = counters.after(option, state, position), used + amounts[position]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 12), st.integers(1, 6))
def test_enough_is_what_the_smallest_consumers_need(amounts: list[int], limit: int, needed: int) -> None:
    counters, option = posed(world(amounts, limit))
    if needed > len(amounts):
        return
    found = counters.suffices(option, counters.first, (1 << len(amounts)) - 1, needed)
    assert found is (needed <= 1 or sum(sorted(amounts)[:needed]) <= limit)


def test_a_device_that_is_shared_is_charged_once() -> None:
    counters, option = posed(world([3, 3], 4, shareable=True, capacity={"mem": 9}))
    first = counters.after(option, counters.first, 0)
    assert counters.after(option, first, 0) is first
    assert list(positions(counters.admitted(option, first, 0b11))) == [0]


def grouped(*groups: list[str]) -> World:
    made = [
        {
            "name": f"d{number}",
            "consumesCounters": [{"counterSet": "g", "counters": {"m": {"value": "1"}}, "compatibilityGroups": own}],
        }
        for number, own in enumerate(groups)
    ]
    slices = [resource_slice(*made, count=2), resource_slice(name="sets", count=2, counters={"g": {"m": 99}})]
    return World(slices, features=Features(compatibility_groups=True))


@pytest.mark.parametrize(
    ("placed", "joining"),
    [
        ([], [0, 1, 2, 3]),
        ([0], [0, 1]),
        ([1], [0, 1, 2]),
        ([1, 0], [0, 1]),
        ([2], [1, 2]),
        ([3], [3]),
    ],
)
def test_devices_of_one_set_have_a_group_in_common(placed: list[int], joining: list[int]) -> None:
    """A device without groups is compatible with its like alone."""
    counters, option = posed(grouped(["a"], ["a", "b"], ["b"], []))
    assert admitted(counters, option, *placed, devices=4) == joining


def test_slices_with_groups_are_ignored_where_the_release_does_not_know_them() -> None:
    with_groups = grouped(["a"], ["b"])
    assert World(with_groups.slices, features=Features()).devices(claim(exactly())) is None
    assert with_groups.devices(claim(exactly())) == ["r→d0"]


POOLS = 20


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["pair", "match", "free"]), max_size=8))
def test_what_is_kept_of_many_pools_answers_as_one_who_knows_nothing(steps: list[str]) -> None:
    parts = [
        *(device(f"d{one}", consumes={"g": {"m": 1}}, attributes={"drv/pool": 0}) for one in range(13)),
        device("whole", consumes={"g": {"m": 2}}),
    ]
    slices = []
    for pool in range(POOLS):
        own = [{**part, "attributes": {"drv/pool": {"int": pool}}} for part in parts]
        slices.append(resource_slice(*own, name=f"s{pool}", pool=f"p{pool}", count=2))
        slices.append(resource_slice(name=f"c{pool}", pool=f"p{pool}", count=2, counters={"g": {"m": 3}}))
    cluster = World(slices)
    granted: list[ResourceClaim] = []
    for number, step in enumerate(steps):
        if step == "free":
            if granted:
                cluster.ledger.remove(granted.pop(0))
            continue
        tied = {"constraints": [{"matchAttribute": "drv/pool"}]} if step == "match" else {}
        asked = claim(exactly(count=2), name=f"k{number}", **tied)
        answer = cluster.allocate(asked)
        alone = World(slices, granted).allocate(asked)
        assert isinstance(answer, Allocation)
        assert isinstance(alone, Allocation)
        assert answer.results == alone.results
        status = from_dict(ResourceClaim, {"status": {"allocation": to_dict(answer.results[0])}}).status
        granted.append(replace(asked, status=status))
        cluster.ledger.add(granted[-1])
