"""Whether shares can have room in sum."""

from __future__ import annotations

import pytest

from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.capacity_bound import CapacityBound
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice


def bound(sizes: list[int], *, taken: int = 0) -> tuple[CapacityBound, Candidates]:
    """Two devices of 5, requests of these sizes."""
    made = [device(name, shareable=True, capacity={"mem": 5}) for name in ("a", "b")]
    world = World([resource_slice(*made)], [held(shares={"a": {"mem": taken}})] if taken else ())
    asked = [exactly(f"r{number}", 1, capacity={"drv/mem": size}) for number, size in enumerate(sizes)]
    prepared, problem = problem_of(world, [claim(*asked)])
    tables = OptionTables(prepared.plans, world.features, problem.view.interner)
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
