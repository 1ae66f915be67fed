"""Claims on one node."""

from __future__ import annotations

import pytest

from cathedra.allocation import NodeError
from tests.unit.allocation.building import World, claim, device, exactly, first_available, problem_of, resource_slice


def test_all_means_the_devices_of_this_node() -> None:
    slices = [resource_slice("a", "b"), resource_slice("c", name="t", pool="q", node="birch")]
    _, problem = problem_of(World(slices), [claim(exactly("r", 0, allocationMode="All"))])
    (choice,) = problem.requests[0][0].choices
    assert (choice.devices, choice.count) == ((0, 1), 2)


def test_all_passes_over_devices_that_its_selectors_do_not_choose() -> None:
    made = [device(name, attributes={"index": number}) for number, name in enumerate("abc")]
    asked = exactly("r", 0, 'device.attributes["drv"].index != 1', allocationMode="All")
    _, problem = problem_of(World([resource_slice(*made)]), [claim(asked)])
    assert problem.requests[0][0].choices[0].devices == (0, 2)


def test_alternatives_are_choices_of_one_request_in_order() -> None:
    asked = first_available("r", big=exactly("x", 2), small=exactly("y"))
    _, problem = problem_of(World([resource_slice("a", "b")]), [claim(asked)])
    (request,) = problem.requests[0]
    assert request.alternatives
    assert [(one.option.name, one.count) for one in request.choices] == [("r/big", 2), ("r/small", 1)]


def test_all_of_a_pool_that_is_not_complete_is_an_error_of_the_node() -> None:
    world = World([resource_slice("a", count=2)])
    with pytest.raises(NodeError):
        problem_of(world, [claim(exactly("r", 0, allocationMode="All"))])


def test_a_device_knows_its_pool_and_its_place_in_it() -> None:
    slices = [resource_slice("a", "b"), resource_slice("c", "d", name="t", pool="q")]
    _, problem = problem_of(World(slices), [claim(exactly("r"))])
    place = next(at for at, record in enumerate(problem.devices) if record.name == "d")
    assert problem.pool(place).id == ("drv", "q")
    assert problem.state_of(place)[1] == 1
