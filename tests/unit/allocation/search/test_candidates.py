"""The devices that may be placed next."""

from __future__ import annotations

from typing import Any

from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.masks import positions
from tests.unit.allocation.building import World, claim, device, exactly, problem_of, resource_slice


def candidates(world: World, *requests: dict[str, Any], **more: Any) -> Candidates:
    prepared, problem = problem_of(world, [claim(*requests, **more)])
    return Candidates(problem, bases(OptionTables(prepared.plans, world.features, problem.view.interner), problem))


THREE = World([resource_slice(*[device(name, attributes={"numa": at // 2}) for at, name in enumerate("abc")])])


def test_a_placed_device_is_gone_for_all_but_admin_access_of_others() -> None:
    found = candidates(THREE, exactly("r"), exactly("s", 1, adminAccess=True))
    choices = [request.choices[0] for request in found.problem.requests[0]]
    after, placement = found.place(choices[0], 1, found.first)
    assert placement.position == 1
    assert list(positions(found.of(choices[0].option, after))) == [0, 2]
    assert list(positions(found.of(choices[1].option, after))) == [0, 2], "the claim has it already"
    later = after.for_next_claim(0)
    assert list(positions(found.untied(choices[1].option, later))) == [0, 1, 2]
    assert list(positions(found.untied(choices[0].option, later))) == [0, 2]


def test_constraints_narrow_what_is_left_and_the_state_before_stays() -> None:
    found = candidates(THREE, exactly("r", 2), constraints=[{"matchAttribute": "drv/numa"}])
    choice = found.problem.requests[0][0].choices[0]
    after, _ = found.place(choice, 0, found.first)
    assert list(positions(found.of(choice.option, after))) == [1]
    assert list(positions(found.untied(choice.option, after))) == [1, 2]
    assert list(positions(found.of(choice.option, found.first))) == [0, 1, 2]
    assert (after.placed, found.first.placed) == (1, 0)


def test_all_restrictions_must_find_enough() -> None:
    found = candidates(THREE, exactly("r", 2), constraints=[{"matchAttribute": "drv/numa"}])
    option = found.problem.requests[0][0].choices[0].option
    assert found.suffice(option, found.first, 0b111, 2)
    assert not found.suffice(option, found.first, 0b111, 3)
    assert not found.suffice(option, found.first, 0b101, 2)
