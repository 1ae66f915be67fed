"""Rules of the classic kinds: docs/spec/api.md §7.2."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict, replace
from cathedra.classic.kinds import validation
from tests.unit.classic.kinds.objects import allocation, claim, context, said

USER = {"resource": "pods", "name": "p", "uid": "u"}
OTHER = {**USER, "uid": "v"}
GIVEN: dict[str, Any] = {"driverName": "d.example.com", "allocation": allocation()}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, []),
        ({"allocationMode": "Now"}, ['spec.allocationMode: Unsupported value: "Now"']),
        (
            {"parametersRef": {"kind": "", "name": ""}},
            ["spec.parametersRef.kind: R", "spec.parametersRef.name: R"],
        ),
        ({"resourceClassName": "A B"}, ['spec.resourceClassName: Invalid value: "A B"']),
    ],
)
def test_a_claim_names_a_class_a_known_mode_and_whole_parameters(spec: dict[str, Any], wanted: list[str]) -> None:
    found = said(validation.validate_claim(claim(**spec)))
    assert len(found) == len(wanted)
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def test_a_claims_spec_never_changes() -> None:
    changed = claim(allocationMode="Immediate")
    (error,) = said(validation.validate_claim_update(changed, claim()))
    assert error.startswith("spec: Invalid value: ")
    assert error.endswith(": field is immutable")


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (
            {},
            {"allocation": allocation()},
            ["status.driverName: Required value: must be specified"],
        ),
        (
            {},
            {"reservedFor": [USER]},
            ["status.reservedFor: Forbidden: may not be specified"],
        ),
        (
            GIVEN,
            GIVEN | {"reservedFor": [USER, OTHER]},
            ["status.reservedFor: Forbidden: may not be reserved"],
        ),
        (
            GIVEN | {"reservedFor": [USER]},
            GIVEN | {"reservedFor": [USER], "deallocationRequested": True},
            ["status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is set"],
        ),
        (
            GIVEN | {"deallocationRequested": True},
            GIVEN,
            ["status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"],
        ),
        (
            {},
            {"deallocationRequested": True},
            ["status: Forbidden: `allocation` must be set when `deallocationRequested` is set"],
        ),
        (
            GIVEN | {"deallocationRequested": True},
            GIVEN | {"deallocationRequested": True, "reservedFor": [USER]},
            [
                "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            ],
        ),
        (GIVEN | {"deallocationRequested": True}, {}, []),
        (GIVEN, GIVEN | {"reservedFor": [USER]}, []),
        (
            GIVEN,
            GIVEN | {"reservedFor": [USER, USER]},
            ["status.reservedFor[1].uid: Duplicate value", "status.res"],
        ),
    ],
)
def test_a_status_tells_one_story(before: dict[str, Any], after: dict[str, Any], wanted: list[str]) -> None:
    found = said(validation.validate_claim_status(claim(after), claim(before), context()))
    assert len(found) == len(wanted), found
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def test_an_allocation_is_replaced_in_1_26_alone() -> None:
    before = claim(GIVEN)
    after = claim(GIVEN | {"allocation": allocation(shareable=True)})
    assert said(validation.validate_claim_status(after, before, context("1.26"))) == []
    (error,) = said(validation.validate_claim_status(after, before, context("1.27")))
    assert error.startswith("status.allocation: Invalid value: ")


def test_the_one_handle_of_1_26_is_named_as_such_when_it_is_too_long() -> None:
    handles = [{"driverName": "d.example.com", "data": "x" * (16 * 1024 + 1)}]
    after = claim(GIVEN | {"allocation": {"resourceHandles": handles}})
    for release, path in (("1.26", "resourceHandle"), ("1.27", "resourceHandles[0].data")):
        (error,) = said(validation.validate_claim_status(after, claim(), context(release)))
        assert error.startswith(f"status.allocation.{path}: Too long")


def test_a_shareable_claim_has_at_most_32_consumers() -> None:
    users = [{**USER, "uid": str(number)} for number in range(33)]
    shared = GIVEN | {"allocation": allocation(shareable=True)}
    after = claim(shared | {"reservedFor": users})
    (error,) = said(validation.validate_claim_status(after, claim(shared), context()))
    assert error.startswith("status.reservedFor: Too long")


def test_proposed_nodes_are_few_and_each_named_once() -> None:
    made = from_dict(v1alpha2.PodSchedulingContext, {"spec": {"potentialNodes": ["a", "a", "B C"]}})
    first, second = said(validation.validate_context(made))
    assert first == 'spec.potentialNodes[1]: Duplicate value: "a"'
    assert second.startswith('spec.potentialNodes[2]: Invalid value: "B C"')
    many = replace(made, spec=replace(made.spec, potential_nodes=tuple(f"n{number}" for number in range(129))))
    (error,) = said(validation.validate_context(many))
    assert error.startswith("spec.potentialNodes: Too long")


def test_answers_of_drivers_are_named_as_kubernetes_names_them() -> None:
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["n", "n"]}, {"name": "a"}]}
    made = from_dict(v1alpha2.PodSchedulingContext, {"status": status})
    assert said(validation.validate_context_status(made)) == [
        'status.claims[0].unsuitableNodes[1]: Duplicate value: "n"',
        'status.claims[1]: Duplicate value: "a"',
    ]


def test_a_class_names_its_driver() -> None:
    assert said(validation.validate_class(v1alpha2.ResourceClass())) == ["driverName: Required value"]
    reference = v1alpha2.ResourceClassParametersReference(kind="", name="n", namespace="A")
    made = v1alpha2.ResourceClass(driver_name="d.example.com", parameters_ref=reference)
    first, second = said(validation.validate_class(made))
    assert first == "parametersRef.kind: Required value"
    assert second.startswith('parametersRef.namespace: Invalid value: "A"')
