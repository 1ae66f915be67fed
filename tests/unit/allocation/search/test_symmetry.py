"""Interchangeable devices and requests."""

from __future__ import annotations

from typing import Any

from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.matching import positions
from cathedra.allocation.search.symmetry import Symmetry
from tests.unit.allocation.building import World, claim, device, exactly, problem_of, resource_slice


def symmetry(world: World, *requests: dict[str, Any], **more: Any) -> tuple[Symmetry, Candidates]:
    prepared, problem = problem_of(world, [claim(*requests, **more)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    candidates = Candidates(problem, bases(tables, problem))
    return Symmetry(candidates), candidates


def alike(world: World, position: int, *requests: dict[str, Any], **more: Any) -> list[int]:
    found, candidates = symmetry(world, *requests, **more)
    option = candidates.problem.requests[0][0].choices[0].option
    return list(positions(found.alike(option, position, candidates.first)))


NUMA = [device(name, attributes={"numa": number // 2}) for number, name in enumerate("abcd")]


def test_devices_are_alike_unless_a_test_of_this_search_tells_them_apart() -> None:
    world = World([resource_slice(*NUMA)])
    assert alike(world, 0, exactly("r")) == [0, 1, 2, 3]
    assert alike(world, 0, exactly("r"), constraints=[{"matchAttribute": "drv/numa"}]) == [0, 1]


def test_devices_that_consume_different_amounts_are_not_alike() -> None:
    made = [device(name, consumes={"g": {"m": 1 + number % 2}}) for number, name in enumerate("abcd")]
    world = World([resource_slice(*made, count=2), resource_slice(name="c", count=2, counters={"g": {"m": 9}})])
    assert alike(world, 1, exactly("r")) == [1, 3]


def test_a_share_that_is_taken_tells_devices_apart() -> None:
    made = [device(name, shareable=True, capacity={"mem": 5}) for name in "abc"]
    found, candidates = symmetry(World([resource_slice(*made)]), exactly("r", 1, capacity={"drv/mem": 1}))
    choice = candidates.problem.requests[0][0].choices[0]
    after, _ = candidates.place(choice, 1, candidates.first)
    assert list(positions(found.alike(choice.option, 0, after))) == [0, 2]
    other, _ = candidates.place(choice, 2, candidates.first)
    assert found.scan_key(after) != found.scan_key(other)


def test_neighbours_that_ask_for_one_device_of_a_kind_are_twins() -> None:
    found, _ = symmetry(World([resource_slice(*NUMA)]), exactly("r"), exactly("s"), exactly("t", 2))
    assert found.is_twin(0, 0)
    assert not found.is_twin(0, 1)
    assert not found.is_twin(0, 2)
