"""The first attempt without bookkeeping."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation.claims.problem import Solution
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.greedy import greedy
from tests.unit.allocation.building import World, claim, device, exactly, first_available, problem_of, resource_slice


def attempt(world: World, *requests: dict[str, Any], **more: Any) -> tuple[bool, list[int] | None]:
    prepared, problem = problem_of(world, [claim(*requests, **more)])
    tables = OptionTables(prepared.plans, world.features, problem.view.interner)
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
