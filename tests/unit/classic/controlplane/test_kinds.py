"""Rules of classes in 1.31: docs/spec/api.md §7.4."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.classic.controlplane import kinds
from cathedra.classic.controlplane.kinds import (
    ControlledClaimSpec,
    ControlledClaimStatusStrategy,
    ControlledClaimStrategy,
    ControlledClassStrategy,
    ControlledTemplate,
    ControlledTemplateSpec,
    ControlledTemplateStrategy,
    allocated_by,
    controlled_claim_state,
    controller_of,
    deallocation_requested,
    suitable_nodes,
)
from tests.unit.classic.controlplane.kinds.objects import RESULT, claim, context, device_class
from tests.unit.kinds.objects import created, texts, updated

NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpus", "operator": "Exists"}]}]}
STRATEGY = ControlledClassStrategy()


def test_suitable_nodes_are_checked_under_kubernetes_short_path() -> None:
    assert texts(created(STRATEGY, device_class(suitableNodes=NODES), context())[1]) == []
    (error,) = texts(created(STRATEGY, device_class(suitableNodes={"nodeSelectorTerms": []}), context())[1])
    assert error.startswith("suitableNodes.nodeSelectorTerms: Required value")


def test_without_the_gate_suitable_nodes_are_dropped_unless_stored() -> None:
    closed, wanted = context(controllers=False), device_class(suitableNodes=NODES)
    assert suitable_nodes(created(STRATEGY, wanted, closed)[0]) is None
    assert suitable_nodes(updated(STRATEGY, wanted, device_class(), closed)[0]) is None
    assert suitable_nodes(updated(STRATEGY, wanted, wanted, closed)[0]) is not None


def test_expressions_may_be_long_and_configuration_large() -> None:
    """Limits came with 1.32."""
    expression = " && ".join(["true"] * 3000)
    parameters = {"text": "x" * 11_000}
    made = device_class(
        selectors=[{"cel": {"expression": expression}}],
        config=[{"opaque": {"driver": "d.example.com", "parameters": parameters}}],
    )
    assert texts(created(STRATEGY, made, context())[1]) == []


# Between v1alpha3 of 1.31 and what is inside: nothing is lost that the release can express.

SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}


@given(
    controller=st.sampled_from(["", "d.example.com"]),
    allocated=st.booleans(),
    requested=st.booleans(),
    count=st.integers(0, 3),
    admin=st.sampled_from([None, True]),
)
def test_a_claim_comes_back_as_it_was(
    controller: str, allocated: bool, requested: bool, count: int, admin: bool | None
) -> None:
    request = {"name": "r", "deviceClassName": "k", "count": count, "adminAccess": admin}
    status: dict[str, object] = {"deallocationRequested": requested}
    if allocated:
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "e"}
        status["allocation"] = {
            "devices": {"results": [result]},
            "nodeSelector": SELECTOR,
            "controller": controller,
        }
        status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    spec = {"controller": controller, "devices": {"requests": [request]}}
    old = from_dict(v1alpha3.ResourceClaim, {"metadata": {"name": "c"}, "spec": spec, "status": status})
    assert kinds.claim_from_hub(kinds.claim_to_hub(old)) == old


def test_no_admin_access_was_the_same_as_nothing_said() -> None:
    request = {"name": "r", "deviceClassName": "k", "adminAccess": False}
    old = from_dict(v1alpha3.ResourceClaim, {"spec": {"devices": {"requests": [request]}}})
    new = to_dict(kinds.claim_from_hub(kinds.claim_to_hub(old)))
    assert "adminAccess" not in new["spec"]["devices"]["requests"][0]


def test_templates_classes_and_contexts_come_back_too() -> None:
    spec = {"controller": "d.example.com", "devices": {"requests": [{"name": "r", "deviceClassName": "k"}]}}
    template = from_dict(v1alpha3.ResourceClaimTemplate, {"metadata": {"name": "t"}, "spec": {"spec": spec}})
    assert kinds.template_from_hub(kinds.template_to_hub(template)) == template
    device_class = from_dict(v1alpha3.DeviceClass, {"metadata": {"name": "k"}, "spec": {"suitableNodes": SELECTOR}})
    assert kinds.class_from_hub(kinds.class_to_hub(device_class)) == device_class
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n"]}]}
    context = from_dict(
        v1alpha3.PodSchedulingContext, {"metadata": {"name": "p"}, "spec": {"selectedNode": "n"}, "status": status}
    )
    assert kinds.context_from_hub(kinds.context_to_hub(context)) == context


# Rules of claims and templates in 1.31: docs/spec/api.md §7.4.

NAME = "d.example.com"
USER = {"resource": "pods", "name": "p", "uid": "u"}
OTHER = {**USER, "uid": "v"}


def given_claims(controller: str = NAME, **more: Any) -> dict[str, Any]:
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
        ({}, given_claims(), []),
        ({}, given_claims("A B"), ['status.allocation.controller: Invalid value: "A B"']),
        ({}, given_claims(reservedFor=[USER, OTHER]), []),
        ({}, {"deallocationRequested": True}, ["status: Forbidden: `allocation` must be set when"]),
        (
            given_claims(reservedFor=[USER]),
            given_claims(reservedFor=[USER], deallocationRequested=True),
            ["status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is set"],
        ),
        (given_claims(), given_claims(deallocationRequested=True), []),
        (
            given_claims(deallocationRequested=True),
            given_claims(deallocationRequested=True, reservedFor=[USER]),
            ["status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested`"],
        ),
        (
            given_claims(deallocationRequested=True),
            given_claims(),
            ["status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"],
        ),
        (given_claims(deallocationRequested=True), {}, []),
        (given_claims(), given_claims("e.example.com"), ["status.allocation: Invalid value: "]),
        ({}, {"reservedFor": [USER]}, ["status.reservedFor: Forbidden: may not be specified"]),
    ],
)
def test_a_status_tells_one_story(before: dict[str, Any], after: dict[str, Any], wanted: list[str]) -> None:
    old = claim(before, controller=NAME)
    found = texts(updated(STATUS, claim(after, controller=NAME), old, context())[1])
    assert len(found) == len(wanted), found
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def test_new_consumers_of_a_claim_that_goes_are_refused_once() -> None:
    old = claim(given_claims(), controller=NAME, deleted=True)
    new = claim(given_claims(reservedFor=[USER], deallocationRequested=True), controller=NAME, deleted=True)
    found = texts(updated(STATUS, new, old, context())[1])
    assert sum("new entries may not be added" in text for text in found) == 1


def test_an_allocation_is_looked_at_again_with_every_change() -> None:
    stored = claim({"allocation": {"devices": {"results": [{**RESULT, "pool": "A B"}]}}})
    (error,) = texts(updated(STATUS, stored, stored, context())[1])
    assert error.startswith('status.allocation.devices.results[0].pool: Invalid value: "A B"')


def test_a_claim_has_at_most_32_consumers() -> None:
    users = [{**USER, "uid": str(number)} for number in range(33)]
    (error,) = texts(updated(STATUS, claim(given_claims(reservedFor=users)), claim(given_claims()), context())[1])
    assert error.startswith("status.reservedFor: Too long")


def test_without_the_gate_what_controllers_write_is_dropped_unless_the_claim_names_one() -> None:
    closed = context(controllers=False)
    made, _ = updated(STATUS, claim(given_claims(deallocationRequested=True)), claim(), closed)
    assert (allocated_by(made.status.allocation), deallocation_requested(made)) == ("", False)
    made, _ = updated(STATUS, claim(given_claims(deallocationRequested=True)), claim(controller=NAME), closed)
    assert (allocated_by(made.status.allocation), deallocation_requested(made)) == (NAME, True)
    made, _ = updated(STATUS, claim(given_claims(deallocationRequested=True)), claim(given_claims()), closed)
    assert (allocated_by(made.status.allocation), deallocation_requested(made)) == (NAME, True)


@pytest.mark.parametrize(
    ("status", "deleted", "wanted"),
    [
        ({}, False, "pending"),
        ({}, True, "deleted"),
        (given_claims(), False, "allocated"),
        (given_claims(reservedFor=[USER]), True, "deleted,allocated,reserved"),
        (given_claims(deallocationRequested=True), False, "allocated,deallocating"),
        (given_claims(), True, "deleted,allocated,deallocating"),
    ],
)
def test_states_are_joined_in_kubernetes_order(status: dict[str, Any], deleted: bool, wanted: str) -> None:
    assert controlled_claim_state(claim(status, deleted=deleted)) == wanted
