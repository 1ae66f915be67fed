"""Requests of claims, parsed once."""

from __future__ import annotations

from typing import Any

from cathedra.allocation.claims.requests import ClaimPlan, Constraint, Obstacle, RequestOption
from tests.unit.allocation.building import World, claim, exactly, first_available, resource_slice


def plan(*requests: dict[str, Any], **more: Any) -> ClaimPlan:
    return World([resource_slice("a")]).allocator().prepare([claim(*requests, **more)]).plans[0]


def options(one: ClaimPlan) -> list[RequestOption]:
    found = [option for request in one.requests for option in request.options]
    assert not any(isinstance(option, Obstacle) for option in found)
    return [option for option in found if isinstance(option, RequestOption)]


def test_options_are_numbered_through_all_requests() -> None:
    found = options(plan(exactly("r"), first_available("s", x=exactly("x"), y=exactly("y", 2))))
    assert [(one.number, one.name, one.parent, one.count) for one in found] == [
        (0, "r", "r", 1),
        (1, "s/x", "s", 1),
        (2, "s/y", "s", 2),
    ]


def test_a_class_that_is_missing_is_an_obstacle_where_it_is_needed() -> None:
    first, second = plan(exactly("r"), exactly("s", 1, deviceClassName="gone")).requests
    assert isinstance(first.options[0], RequestOption)
    (obstacle,) = second.options
    assert isinstance(obstacle, Obstacle)
    assert "gone" in str(obstacle.error)


def test_a_constraint_concerns_the_requests_it_names_and_their_alternatives() -> None:
    constraint = Constraint("drv/numa", frozenset({"r", "s/x"}), distinct=False)
    assert constraint.names("r", "r")
    assert constraint.names("r", "r/any")
    assert constraint.names("s", "s/x")
    assert not constraint.names("s", "s/y")
    assert Constraint("drv/numa", frozenset(), distinct=True).names("s", "s/y")


def test_capacity_of_all_devices_under_a_constraint_is_looked_at_last() -> None:
    everything = exactly("r", 0, allocationMode="All")
    (free,) = options(plan(everything))
    (bound,) = options(plan(everything, constraints=[{"matchAttribute": "drv/numa"}]))
    assert (free.checks_capacity_last, bound.checks_capacity_last) == (False, True)
