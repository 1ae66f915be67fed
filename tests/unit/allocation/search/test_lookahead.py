"""Requests that can be judged independently."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.budget import UNLIMITED, Meter
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.lookahead import CapacityBound, Lookahead
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice

KIND = 'device.attributes["drv"].kind == "{}"'


def of_kind(kind: str) -> dict[str, Any]:
    """A request for a device of a kind, named like it."""
    return exactly(f"r{kind}", 1, KIND.format(kind))


def parts(*asked: dict[str, Any], counters: bool = False, **more: Any) -> list[int]:
    """The component of each request of a claim, on a node with two devices of the kinds «a» and «b» each."""
    consumes = {"consumes": {"g": {"m": 1}}} if counters else {}
    made = [device(f"{kind}{n}", attributes={"kind": kind, "n": n}, **consumes) for kind in ("a", "b") for n in (0, 1)]
    slices = [
        resource_slice(*made, name="s", count=2),
        resource_slice(name="c", count=2, counters={"g": {"m": 9}}),
    ]
    world = World(slices)
    prepared, problem = problem_of(world, [claim(*asked, **more)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    lookahead = Lookahead(Candidates(problem, bases(tables, problem)), Meter(UNLIMITED.begin()))
    return [lookahead.component(0, number) for number in range(len(asked))]


def test_requests_for_different_devices_are_components_of_their_own() -> None:
    one, other, again = parts(of_kind("a"), of_kind("b"), exactly("more", 1, KIND.format("a")))
    assert one == again
    assert not one & other


def test_a_request_that_may_have_the_devices_of_two_others_joins_their_components() -> None:
    one, other, third = parts(of_kind("a"), of_kind("b"), exactly("any"))
    assert one == other == third


def test_a_constraint_joins_components() -> None:
    one, other = parts(of_kind("a"), of_kind("b"), constraints=[{"matchAttribute": "drv/n"}])
    assert one == other


def test_counters_of_one_pool_join_components() -> None:
    one, other = parts(of_kind("a"), of_kind("b"), counters=True)
    assert one == other


def test_requests_are_not_judged_apart_where_a_selector_may_fail() -> None:
    fails = exactly("fails", 1, 'device.attributes["drv"].missing == 1')
    one, other = parts(of_kind("a"), fails)
    assert one & other


def test_requests_are_not_judged_apart_where_the_claim_may_grow_too_large() -> None:
    """Then the choice made for one decides whether there is room for the devices of another."""
    many = {
        "name": "many",
        "firstAvailable": [{"name": f"s{count}", **exactly("x", count)["exactly"]} for count in (32, 1)],
    }
    one, other = parts(of_kind("a"), {**many})
    assert one & other


def bound(sizes: list[int], *, taken: int = 0) -> tuple[CapacityBound, Candidates]:
    """Two devices of 5, requests of these sizes."""
    made = [device(name, shareable=True, capacity={"mem": 5}) for name in ("a", "b")]
    world = World([resource_slice(*made)], [held(shares={"a": {"mem": taken}})] if taken else ())
    asked = [exactly(f"r{number}", 1, capacity={"drv/mem": size}) for number, size in enumerate(sizes)]
    prepared, problem = problem_of(world, [claim(*asked)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    candidates = Candidates(problem, bases(tables, problem))
    return CapacityBound(candidates, lambda claim, request: False), candidates


@pytest.mark.parametrize(("sizes", "taken", "enough"), [([5, 5], 0, True), ([5, 4, 2], 0, False), ([5, 4], 2, False)])
def test_the_sum_of_all_requests_must_fit_into_the_sum_of_all_devices(
    sizes: list[int], taken: int, enough: bool
) -> None:
    found, candidates = bound(sizes, taken=taken)
    assert found.suffices(0, 0, candidates.first) is enough


def test_what_is_placed_is_missing_for_the_rest() -> None:
    found, candidates = bound([3, 3, 4])
    choice = candidates.problem.requests[0][0].choices[0]
    after, _ = candidates.place(choice, 0, candidates.first)
    assert found.suffices(0, 1, after)
    after, _ = candidates.place(choice, 1, after)
    assert not found.suffices(0, 1, after)
