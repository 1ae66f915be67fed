"""Rules of claims and templates in 1.31: docs/spec/api.md §7.4."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.struct import replace
from cathedra.classic.controlplane.kinds.claims import (
    ControlledClaimStatusStrategy,
    ControlledClaimStrategy,
    ControlledTemplateStrategy,
    controlled_claim_state,
)
from cathedra.classic.controlplane.kinds.types import (
    ControlledClaimSpec,
    ControlledTemplate,
    ControlledTemplateSpec,
    allocated_by,
    controller_of,
    deallocation_requested,
)
from tests.unit.classic.controlplane.kinds.objects import RESULT, claim, context
from tests.unit.kinds.objects import created, texts, updated

NAME = "d.example.com"
USER = {"resource": "pods", "name": "p", "uid": "u"}
OTHER = {**USER, "uid": "v"}


def given(controller: str = NAME, **more: Any) -> dict[str, Any]:
    """A status with an allocation."""
    return {"allocation": {"devices": {"results": [RESULT]}, "controller": controller}, **more}


MAIN, STATUS = ControlledClaimStrategy(), ControlledClaimStatusStrategy()


def test_a_controller_is_named_as_drivers_are() -> None:
    assert texts(created(MAIN, claim(controller=NAME), context())[1]) == []
    (error,) = texts(created(MAIN, claim(controller="A B"), context())[1])
    assert error.startswith('spec.controller: Invalid value: "A B"')


def test_without_the_gate_a_new_claim_loses_its_controller_and_a_stored_one_keeps_it() -> None:
    closed = context(controllers=False)
    assert controller_of(created(MAIN, claim(controller=NAME), closed)[0]) == ""
    assert controller_of(updated(MAIN, claim(controller=NAME), claim(controller=NAME), closed)[0]) == NAME
    made, errors = updated(MAIN, claim(controller=NAME), claim(), closed)
    assert (controller_of(made), texts(errors)) == ("", [])


def test_the_spec_never_changes() -> None:
    (error,) = texts(updated(MAIN, claim(controller=NAME), claim(), context())[1])
    assert error.startswith("spec: Invalid value: ")
    assert error.endswith(": field is immutable")


def test_a_template_is_not_stripped_but_checked() -> None:
    def template(controller: str) -> ControlledTemplate:
        spec = replace(claim().spec, controller=controller)
        assert isinstance(spec, ControlledClaimSpec)
        return ControlledTemplate(spec=ControlledTemplateSpec(spec=spec))

    made, errors = created(ControlledTemplateStrategy(), template(NAME), context(controllers=False))
    assert (made.spec.spec.controller, texts(errors)) == (NAME, [])
    (error,) = texts(created(ControlledTemplateStrategy(), template("A B"), context())[1])
    assert error.startswith('spec.spec.controller: Invalid value: "A B"')


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ({}, given(), []),
        ({}, given("A B"), ['status.allocation.controller: Invalid value: "A B"']),
        ({}, given(reservedFor=[USER, OTHER]), []),
        ({}, {"deallocationRequested": True}, ["status: Forbidden: `allocation` must be set when"]),
        (
            given(reservedFor=[USER]),
            given(reservedFor=[USER], deallocationRequested=True),
            ["status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is set"],
        ),
        (given(), given(deallocationRequested=True), []),
        (
            given(deallocationRequested=True),
            given(deallocationRequested=True, reservedFor=[USER]),
            ["status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested`"],
        ),
        (
            given(deallocationRequested=True),
            given(),
            ["status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"],
        ),
        (given(deallocationRequested=True), {}, []),
        (given(), given("e.example.com"), ["status.allocation: Invalid value: "]),
        ({}, {"reservedFor": [USER]}, ["status.reservedFor: Forbidden: may not be specified"]),
    ],
)
def test_a_status_tells_one_story(before: dict[str, Any], after: dict[str, Any], wanted: list[str]) -> None:
    old = claim(before, controller=NAME)
    found = texts(updated(STATUS, claim(after, controller=NAME), old, context())[1])
    assert len(found) == len(wanted), found
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def test_new_consumers_of_a_claim_that_goes_are_refused_once() -> None:
    old = claim(given(), controller=NAME, deleted=True)
    new = claim(given(reservedFor=[USER], deallocationRequested=True), controller=NAME, deleted=True)
    found = texts(updated(STATUS, new, old, context())[1])
    assert sum("new entries may not be added" in text for text in found) == 1


def test_an_allocation_is_looked_at_again_with_every_change() -> None:
    stored = claim({"allocation": {"devices": {"results": [{**RESULT, "pool": "A B"}]}}})
    (error,) = texts(updated(STATUS, stored, stored, context())[1])
    assert error.startswith('status.allocation.devices.results[0].pool: Invalid value: "A B"')


def test_a_claim_has_at_most_32_consumers() -> None:
    users = [{**USER, "uid": str(number)} for number in range(33)]
    (error,) = texts(updated(STATUS, claim(given(reservedFor=users)), claim(given()), context())[1])
    assert error.startswith("status.reservedFor: Too long")


def test_without_the_gate_what_controllers_write_is_dropped_unless_the_claim_names_one() -> None:
    closed = context(controllers=False)
    made, _ = updated(STATUS, claim(given(deallocationRequested=True)), claim(), closed)
    assert (allocated_by(made.status.allocation), deallocation_requested(made)) == ("", False)
    made, _ = updated(STATUS, claim(given(deallocationRequested=True)), claim(controller=NAME), closed)
    assert (allocated_by(made.status.allocation), deallocation_requested(made)) == (NAME, True)
    made, _ = updated(STATUS, claim(given(deallocationRequested=True)), claim(given()), closed)
    assert (allocated_by(made.status.allocation), deallocation_requested(made)) == (NAME, True)


@pytest.mark.parametrize(
    ("status", "deleted", "wanted"),
    [
        ({}, False, "pending"),
        ({}, True, "deleted"),
        (given(), False, "allocated"),
        (given(reservedFor=[USER]), True, "deleted,allocated,reserved"),
        (given(deallocationRequested=True), False, "allocated,deallocating"),
        (given(), True, "deleted,allocated,deallocating"),
    ],
)
def test_states_are_joined_in_kubernetes_order(status: dict[str, Any], deleted: bool, wanted: str) -> None:
    assert controlled_claim_state(claim(status, deleted=deleted)) == wanted
