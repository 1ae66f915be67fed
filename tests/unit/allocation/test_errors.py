"""Errors of allocation, and how far each reaches."""

from __future__ import annotations

import pytest

from cathedra.allocation import NodeError, Refusal
from cathedra.allocation.errors import Aborted, AllocationError, DeviceSelectorError, FatalError, InvalidInput
from tests.unit.allocation.building import World, claim, exactly, resource_slice


@pytest.mark.parametrize("error", [InvalidInput("x"), NodeError("x"), FatalError("x"), Aborted("x")])
def test_all_errors_are_of_one_family_and_say_what_they_were_told(error: AllocationError) -> None:
    assert isinstance(error, AllocationError)
    assert str(error) == "x"


def test_an_error_of_one_node_is_not_fatal_and_a_fatal_one_is_of_no_node() -> None:
    assert not issubclass(NodeError, FatalError)
    assert issubclass(DeviceSelectorError, FatalError)
    assert issubclass(Aborted, FatalError)
    assert issubclass(InvalidInput, ValueError)


def test_an_error_of_a_node_may_carry_how_far_requests_came() -> None:
    assert NodeError("x").refusal is None
    world = World([resource_slice("x", name="s1", count=2), resource_slice("x", name="s2", count=2)])
    with pytest.raises(NodeError) as raised:
        world.allocate(claim(exactly()))
    assert isinstance(raised.value.refusal, Refusal)


def test_a_failing_selector_says_where_it_stands_on_what_it_failed_and_why() -> None:
    world = World([resource_slice("a")])
    with pytest.raises(DeviceSelectorError) as raised:
        world.allocate(claim(exactly("r", 1, "true", 'device.attributes["drv"].n == 1')))
    error = raised.value
    assert (error.origin, error.index, error.device) == ("claim ns/k", 1, "drv/p/a")
    assert error.cause == "no such key: n"
    assert error.cause in str(error)


def test_a_selector_that_does_not_compile_failed_on_no_device() -> None:
    with pytest.raises(DeviceSelectorError) as raised:
        World([resource_slice("a")]).allocate(claim(exactly("r", 1, "device.nothing")))
    assert (raised.value.index, raised.value.device) == (0, "")
