"""Rules of claims and templates: requests, constraints, configuration, administrative access, status."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.field import ErrorType
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.definition import ExpressionFault
from tests.unit.kinds.objects import claim, context, created, definition_of, exactly, texts, updated

DEVICES = "spec.devices"
CLASS = {"deviceClassName": "gpu.example.com"}


def complaints(made: resource.ResourceClaim, release: str = "1.37", **more: Any) -> list[str]:
    request = context(release, **more)
    return texts(created(definition_of("resourceclaims").strategy, made, request)[1])


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (exactly(), ""),
        (exactly("A"), 'requests[0].name: Invalid value: "A"'),
        ({"name": "r"}, "requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"),
        (
            {"name": "r", "exactly": CLASS, "firstAvailable": [{"name": "x", **CLASS}]},
            "requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple",
        ),
        (exactly(deviceClassName=""), "requests[0].exactly.deviceClassName: Required value"),
        (exactly(allocationMode="Some"), 'requests[0].exactly.allocationMode: Unsupported value: "Some"'),
        (exactly(allocationMode="All", count=2), "requests[0].exactly.count: Invalid value: 2"),
        (exactly(count=-1), "requests[0].exactly.count: Invalid value: -1"),
        (exactly(selectors=[{}]), "requests[0].exactly.selectors[0].cel: Required value"),
        (
            exactly(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}]),
            'requests[0].exactly.tolerations[0].value: Invalid value: "v"',
        ),
        (
            exactly(tolerations=[{"operator": "Is"}]),
            'requests[0].exactly.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"',
        ),
        (
            {"name": "r", "firstAvailable": [{"name": "x", **CLASS}, {"name": "x", **CLASS}]},
            'requests[0].firstAvailable[1]: Duplicate value: {"name":"x","deviceClassName":"gpu.example.com"',
        ),
        (
            {"name": "r", "firstAvailable": [{"name": f"x{n}", **CLASS} for n in range(9)]},
            "requests[0].firstAvailable: Too many: 9: must have at most 8 items",
        ),
    ],
)
def test_a_request_is_checked(request_: dict[str, Any], wanted: str) -> None:
    found = complaints(claim(request_))
    assert [text.startswith(f"{DEVICES}.{wanted}") for text in found] == ([True] if wanted else []), found


def test_names_of_requests_occur_once_and_not_too_often() -> None:
    assert complaints(claim(exactly(), exactly()), "1.36") == [f'{DEVICES}.requests[1]: Duplicate value: "r"']
    many = [exactly(f"r{n}") for n in range(33)]
    assert complaints(claim(*many)) == [f"{DEVICES}.requests: Too many: 33: must have at most 32 items"]


@pytest.mark.parametrize(
    ("constraint", "wanted"),
    [
        ({"matchAttribute": "a/b"}, ""),
        ({"distinctAttribute": "a/b"}, ""),
        ({"matchAttribute": "a/b", "requests": ["r"]}, ""),
        ({}, "constraints[0]: Required value"),
        ({"matchAttribute": "b"}, 'constraints[0].matchAttribute: Invalid value: "b": a fully qualified name'),
        ({"matchAttribute": "a/b", "requests": ["z"]}, 'constraints[0].requests[0]: Invalid value: "z"'),
        ({"matchAttribute": "a/b", "requests": ["r/z"]}, 'constraints[0].requests[0]: Invalid value: "r/z"'),
        ({"matchAttribute": "a/b", "requests": ["r", "r"]}, 'constraints[0].requests[1]: Duplicate value: "r"'),
    ],
)
def test_a_constraint_is_checked(constraint: dict[str, Any], wanted: str) -> None:
    found = complaints(claim(exactly(), constraints=[constraint]))
    assert [text.startswith(f"{DEVICES}.{wanted}") for text in found] == ([True] if wanted else []), found


def test_without_the_gate_the_constraint_lacks_its_one_attribute() -> None:
    made = claim(exactly(), constraints=[{"distinctAttribute": "a/b"}])
    assert complaints(made, "1.36", DRAConsumableCapacity=False) == [
        f"{DEVICES}.constraints[0].matchAttribute: Required value"
    ]


@pytest.mark.parametrize(
    ("opaque", "wanted"),
    [
        (None, "config[0].opaque: Required value"),
        ({"driver": "d", "parameters": {}}, ""),
        ({"driver": "", "parameters": {}}, "config[0].opaque.driver: Required value"),
        ({"driver": "d"}, "config[0].opaque.parameters: Required value"),
        ({"driver": "d", "parameters": 1}, 'config[0].opaque.parameters: Invalid value: "<value omitted>"'),
        ({"driver": "d", "parameters": {"a": "x" * 10240}}, "config[0].opaque.parameters: Too long"),
    ],
)
def test_configuration_is_checked(opaque: Any, wanted: str) -> None:
    found = complaints(claim(exactly(), config=[{} if opaque is None else {"opaque": opaque}]))
    assert [text.startswith(f"{DEVICES}.{wanted}") for text in found] == ([True] if wanted else []), found


class Refuses:
    """A compiler that dislikes everything but what is stored."""

    def selector(self, expression: str, *, stored: bool) -> ExpressionFault | None:
        return None if stored else ExpressionFault(ErrorType.INVALID, "compilation failed: no")

    def derived_attribute(self, expression: str, *, stored: bool) -> tuple[ExpressionFault | None, int]:
        return None, 2_000_000


def test_expressions_are_compiled_by_the_given_compiler() -> None:
    request = replace_expressions(context())
    made = claim(exactly(selectors=[{"cel": {"expression": "true"}}]))
    errors = created(definition_of("resourceclaims").strategy, made, request)[1]
    assert texts(errors) == [
        f'{DEVICES}.requests[0].exactly.selectors[0].cel.expression: Invalid value: "true": compilation failed: no'
    ]


def replace_expressions(request: Any) -> Any:

    return replace(request, expressions=Refuses())


def test_administrative_access_needs_the_namespaces_label() -> None:
    made = claim(exactly(adminAccess=True))
    (text,) = complaints(made)
    assert text.startswith("spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires")
    assert complaints(made, labels={"resource.kubernetes.io/admin-access": "true"}) == []


def test_the_spec_of_a_claim_is_immutable() -> None:
    strategy = definition_of("resourceclaims").strategy
    old, _ = created(strategy, claim(), context())
    (text,) = texts(updated(strategy, claim(exactly("other")), old, context())[1])
    assert text == "spec: Invalid value: null: field is immutable"
    (text,) = texts(updated(strategy, claim(exactly("other")), old, context("1.36"))[1])
    assert text.startswith('spec: Invalid value: {"Devices":{"Requests":[{"Name":"other"')
    assert text.endswith("field is immutable")


def test_up_to_134_the_spec_is_looked_at_as_well() -> None:
    strategy = definition_of("resourceclaims", "1.34").strategy
    old, _ = created(strategy, claim(), context("1.34"))
    found = texts(updated(strategy, claim(exactly("A")), old, context("1.34"))[1])
    assert len(found) == 2


def test_a_template_carries_labels_and_annotations_only() -> None:
    template = from_dict(
        resource.ResourceClaimTemplate,
        {"spec": {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"devices": {"requests": [exactly()]}}}},
    )
    errors = created(definition_of("resourceclaimtemplates").strategy, template, context())[1]
    assert texts(errors) == ["spec.metadata.name: Forbidden: cannot be set"]
