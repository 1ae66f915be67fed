"""The searches against the exhaustive reference, on instances that hypothesis makes up."""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cathedra.allocation import RELEASE_1_36, Budget, FatalError, Features, NodeError, Refusal
from cathedra.allocation.claims.problem import Problem, Solution
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.budget import UNLIMITED, Meter
from cathedra.allocation.search.exhaustive import ExhaustiveSearch
from cathedra.allocation.search.fast import greedy
from cathedra.api.resource import ResourceClaim
from tests.unit.allocation import reference
from tests.unit.allocation.building import (
    World,
    claim,
    device,
    exactly,
    first_available,
    held,
    node,
    problem_of,
    resource_slice,
)

NUMA = 'device.attributes["drv"].?numa.orValue(0) == {}'
MODEL = 'device.attributes["drv"].?model.orValue("") == "{}"'
FAILS = ('device.attributes["drv"].numa >= 0',)
"""On a device without the attribute."""


DERIVED = (
    'device.attributes["drv"].?model.orValue("") + "!"',
    'device.attributes["drv"].model',
    'device.attributes["drv"].?numa.orValue(0)',
)


@st.composite
def devices(draw: st.DrawFn, name: str, *, lists: bool) -> dict[str, Any]:
    """A device that differs from its fellows now and then."""
    attributes: dict[str, Any] = {}
    if draw(st.integers(0, 5)):
        numbers = st.integers(0, 2)
        attributes["numa"] = draw(st.lists(numbers, min_size=1, max_size=2, unique=True)) if lists else draw(numbers)
    if draw(st.booleans()):
        attributes["model"] = draw(st.sampled_from(["a", "b"]))
    if draw(st.integers(0, 3)) == 0:
        attributes["mixed"] = draw(st.sampled_from([0, 1, "0", "1"]))
    more: dict[str, Any] = {"attributes": attributes}
    if draw(st.integers(0, 2)) == 0:
        more["consumes"] = {"g": {"m": draw(st.integers(1, 3))}}
    if draw(st.integers(0, 2)) == 0:
        more["capacity"] = {"mem": draw(st.sampled_from([4, 8]))}
        more["shareable"] = draw(st.booleans())
    if draw(st.integers(0, 5)) == 0:
        more["taints"] = {"k": "NoSchedule"}
    return device(name, **more)


@st.composite
def requests(draw: st.DrawFn, name: str, *, alternatives: bool = True) -> dict[str, Any]:
    """A request, now and then with alternatives."""
    if alternatives and draw(st.integers(0, 3)) == 0:
        return first_available(
            name, s0=draw(requests("s0", alternatives=False)), s1=draw(requests("s1", alternatives=False))
        )
    selectors = draw(
        st.sampled_from(
            [(), (), (NUMA.format(0),), (NUMA.format(1),), (MODEL.format("a"),), (MODEL.format("b"),), FAILS]
        )
    )
    more: dict[str, Any] = {}
    if draw(st.integers(0, 9)) == 0:
        more["allocationMode"] = "All"
    if alternatives and draw(st.integers(0, 9)) == 0:
        more["adminAccess"] = True
    if draw(st.integers(0, 3)) == 0:
        more["capacity"] = {"mem": draw(st.sampled_from([1, 2, 4, 6]))}
    if draw(st.integers(0, 4)) == 0:
        more["tolerations"] = [{"operator": "Exists"}]
    if draw(st.integers(0, 5)) == 0:
        more["derivedAttributes"] = [{"name": "drv/made", "expression": draw(st.sampled_from(DERIVED))}]
    counts = [1, 1, 1, 2, 3] if alternatives else [1, 1, 2, 3, 20]
    return exactly(name, draw(st.sampled_from(counts)), *selectors, **more)


@st.composite
def claims(draw: st.DrawFn, name: str) -> ResourceClaim:
    """A claim with up to three requests and two constraints."""
    asked = [draw(requests(f"r{number}")) for number in range(draw(st.integers(1, 3)))]
    constraints: list[dict[str, Any]] = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        kind = draw(st.sampled_from(["matchAttribute", "matchAttribute", "distinctAttribute"]))
        names = draw(st.sampled_from([[], [], ["r0"], ["r0", "r1"]])) if len(asked) > 1 else []
        constraints.append(
            {
                kind: draw(st.sampled_from(["drv/numa", "drv/model", "drv/mixed", "drv/made"])),
                **({"requests": names} if names else {}),
            }
        )
    return claim(*asked, name=name, constraints=constraints)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, list[ResourceClaim]]:
    """One node with up to seven devices in two pools, some of them in use, and up to two claims."""
    lists = draw(st.integers(0, 4)) == 0
    consumable = bool(draw(st.integers(0, 4)))
    count = draw(st.integers(1, 7))
    made = [draw(devices(f"d{number}", lists=lists)) for number in range(count)]
    cut = draw(st.integers(0, count))
    counters = {"g": {"m": draw(st.integers(1, 5))}}
    slices = [
        resource_slice(*made[:cut], name="s1", pool="p", count=2),
        resource_slice(name="c1", pool="p", count=2, counters=counters),
        resource_slice(*made[cut:], name="s2", pool="q", count=2),
        resource_slice(name="c2", pool="q", count=2, counters=counters),
    ]
    allocated = []
    for number, one in enumerate(made):
        pool = "p" if number < cut else "q"
        if draw(st.integers(0, 5)):
            continue
        if one.get("allowMultipleAllocations"):
            allocated.append(held(name=f"h{number}", pool=pool, shares={one["name"]: {"mem": draw(st.integers(1, 4))}}))
        else:
            allocated.append(held(one["name"], name=f"h{number}", pool=pool))
    features = Features(list_type_attributes=lists, consumable_capacity=consumable, derived_attributes=True)
    world = World(slices, allocated, features=features)
    asked = [draw(claims(f"k{number}")) for number in range(draw(st.integers(1, 2)))]
    if not consumable:
        asked = [one for one in asked if not _wants_capacity(one)]
    return world, asked


def _wants_capacity(one: ResourceClaim) -> bool:
    return any(
        option.capacity is not None
        for request in one.spec.devices.requests or ()
        for option in (request.exactly, *request.first_available)
        if option is not None
    )


def named(problem: Problem, solution: Solution | None) -> list[tuple[str, str]] | None:
    """A solution as the reference gives it."""
    if solution is None:
        return None
    return [
        (one.choice.option.name, problem.devices[one.position].name)
        for placements in solution.placements
        for one in placements
    ]


def test_both_searches_give_the_first_assignment_of_the_exhaustive_one() -> None:
    """Examples whose claims are faulty compare nothing; enough others must have been compared."""
    compared: Counter[str] = Counter()

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(worlds())
    @example((World([resource_slice("a")]), [claim(exactly("r", 1, *FAILS))]))
    def compare(made: tuple[World, list[ResourceClaim]]) -> None:
        compared[compare_searches(*made)] += 1

    compare()
    # Of 200 random examples 20 to 60 have a solution.
    assert compared["solutions"] >= 8, compared
    assert compared["refusals"] >= 20, compared
    assert compared["errors"] >= 1, compared


def compare_searches(world: World, asked: list[ResourceClaim]) -> str:
    """Put one example to all three searches; what there was to compare."""
    try:
        prepared, problem = problem_of(world, asked)
    except (FatalError, NodeError):
        return "nothing"
    error = ""
    walked = None
    try:
        walked = named(problem, ExhaustiveSearch(problem, Meter(UNLIMITED.begin())).run())
    except FatalError as fatal:
        error = str(fatal)
    if error:
        with pytest.raises(FatalError, match=f"^{re.escape(error)}$"):
            prepared.on(node())
        return "errors"
    # Without the limit of 32 it looks further, and may meet an error there.
    with suppress(FatalError):
        assert walked == reference.search(problem)
    outcome = prepared.on(node())
    found = (
        None
        if isinstance(outcome, Refusal)
        else [(one.request, one.device) for result in outcome.results for one in result.devices.results]
    )
    assert found == walked
    return "refusals" if walked is None else "solutions"


@pytest.mark.parametrize("count", [12, 24, 32])
def test_one_device_too_few_is_refused_without_enumerating(count: int) -> None:
    """Kubernetes tries 2^n combinations here (docs/spec/allocation.md §15.4)."""
    world = World([resource_slice(*(f"d{n:02}" for n in range(count - 1)))], budget=Budget(states=200))
    assert world.devices(claim(exactly("r", count))) is None


def test_a_search_over_its_budget_says_so() -> None:
    """Packing is hard: no bound sees that these shares cannot be packed."""
    made = [device(f"d{n}", shareable=True, capacity={"mem": 100 + n}) for n in range(8)]
    sizes = [exactly(f"r{n}", capacity={"mem": 42 + 2 * (n % 5)}) for n in range(17)]
    world = World([resource_slice(*made)], budget=Budget(states=500))
    outcome = world.allocate(claim(*sizes))
    assert isinstance(outcome, Refusal)
    assert outcome.stopped
    assert outcome.states == 500
    assert str(outcome) == "alder: stopped after 500 states: 17 requests"


def test_shares_that_are_too_many_in_sum_are_refused_without_packing_them() -> None:
    made = [device(f"d{n}", shareable=True, capacity={"mem": 100 + n}) for n in range(8)]
    sizes = [exactly(f"r{n}", capacity={"mem": 33 + 2 * (n % 3)}) for n in range(25)]
    assert World([resource_slice(*made)], budget=Budget(states=100)).devices(claim(*sizes)) is None


def test_a_device_that_holds_more_than_it_has_takes_no_room_from_others() -> None:
    """Mode All tests constraints before room, so the overcommitted device stays among its candidates."""
    made = [
        device("a", shareable=True, capacity={"mem": 4}, attributes={"n": 0}),
        device("b", shareable=True, capacity={"mem": 10}, attributes={"n": 0}),
        device("c", shareable=True, capacity={"mem": 3}, attributes={"n": 1}),
    ]
    world = World([resource_slice(*made)], [held(name="h", shares={"a": {"mem": 9}})])
    asked = claim(
        first_available("r", bad=exactly("x", 2, NUMA.format(9)), good=exactly("y", 1, capacity={"mem": 3})),
        exactly("q", 1, capacity={"mem": 8}),
    )
    assert world.devices(asked) == ["r/good→c", "q→b"]


def test_a_budget_of_time_stops_the_search() -> None:
    ticks = iter(range(1000))
    budget = Budget(seconds=0.5, monotonic=lambda: float(next(ticks)))
    outcome = World([resource_slice("d")], budget=budget).allocate(claim(exactly()))
    assert isinstance(outcome, Refusal)
    assert outcome.stopped


def test_a_cancelled_search_is_fatal() -> None:
    budget = Budget(cancelled=lambda: "context canceled")
    with pytest.raises(FatalError, match="filter operation aborted: context canceled"):
        World([resource_slice("d")], budget=budget).allocate(claim(exactly()))


def test_loose_requests_leave_the_right_devices_to_tight_ones() -> None:
    made = [device(f"d{n}", attributes={"n": n}) for n in range(20)]
    loose = [exactly(f"l{n}", 1, f'device.attributes["drv"].n in [{n}, {n + 10}]') for n in range(10)]
    tight = [exactly(f"t{n}", 1, f'device.attributes["drv"].n == {n}') for n in range(10)]
    world = World([resource_slice(*made)], budget=Budget(states=5000))
    expected = [f"l{n}→d{n + 10}" for n in range(10)] + [f"t{n}→d{n}" for n in range(10)]
    assert world.devices(claim(*loose, *tight)) == expected


@pytest.mark.parametrize("features", [Features(), Features(behaviour=RELEASE_1_36)], ids=["newest", "1.36"])
def test_many_large_claims_are_no_recursion(features: Features) -> None:
    """Each placement opens a frame of the search, and the process's recursion limit stays what it is."""
    before = sys.getrecursionlimit()
    numbered = [device(f"d{n:04}", attributes={"n": n}) for n in range(640)]
    world = World([resource_slice(*numbered)], features=features)
    # The constraint keeps the greedy first attempt from answering.
    alike = [{"distinctAttribute": "drv/n"}]
    found = world.devices(*(claim(exactly("r", 32), name=f"k{n}", constraints=alike) for n in range(20)))
    assert found is not None
    assert len(found) == 640
    assert sys.getrecursionlimit() == before


def attempt(world: World, *requests: dict[str, Any], **more: Any) -> tuple[bool, list[int] | None]:
    prepared, problem = problem_of(world, [claim(*requests, **more)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    decided, solution = greedy(problem, bases(tables, problem))
    return decided, _positions(solution)


def _positions(solution: Solution | None) -> list[int] | None:
    return None if solution is None else [one.position for placed in solution.placements for one in placed]


THREE = World([resource_slice("a", "b", "c")])


def test_the_first_free_devices_are_taken() -> None:
    assert attempt(THREE, exactly("r", 2), exactly("s")) == (True, [0, 1, 2])


def test_too_few_devices_for_the_first_request_decide_the_matter() -> None:
    assert attempt(THREE, exactly("r", 4)) == (True, None)


def test_what_fails_after_a_placement_is_left_to_the_search() -> None:
    assert attempt(THREE, exactly("r", 2), exactly("s", 2)) == (False, None)


def test_the_first_alternative_with_enough_devices_is_taken() -> None:
    assert attempt(THREE, first_available("r", large=exactly("x", 4), small=exactly("y", 3))) == (True, [0, 1, 2])


@pytest.mark.parametrize(
    "world",
    [
        World([resource_slice(device("a", shareable=True))]),
        World(
            [
                resource_slice(device("a", consumes={"g": {"m": 1}}), count=2),
                resource_slice(name="c", count=2, counters={"g": {"m": 1}}),
            ]
        ),
    ],
)
def test_shares_and_counters_are_left_to_the_search(world: World) -> None:
    assert attempt(world, exactly("r")) == (False, None)


def test_constraints_are_left_to_the_search() -> None:
    assert attempt(THREE, exactly("r"), constraints=[{"matchAttribute": "drv/numa"}]) == (False, None)
