"""Rules and tables of the kinds that 1.30 added: docs/spec/api.md §7.2 and §7.3."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict
from cathedra.classic.kinds.structured import (
    ClaimParametersStrategy,
    ClassParametersStrategy,
    NamedResourcesSliceStrategy,
    structured_definitions,
)
from tests.unit.classic.kinds.objects import context, said

DRIVER = "d.example.com"
CHOICE = {"namedResources": {"selector": "true"}}


def piece(*instances: dict[str, Any], **more: Any) -> v1alpha2.ResourceSlice:
    """A slice of node ``n``."""
    whole = {"nodeName": "n", "driverName": DRIVER, "namedResources": {"instances": list(instances)}, **more}
    return from_dict(v1alpha2.ResourceSlice, {"metadata": {"name": "s"}, **whole})


def of_claim(*requests: dict[str, Any], **more: Any) -> v1alpha2.ResourceClaimParameters:
    """Parameters of a claim with one driver."""
    whole = {"driverRequests": [{"driverName": DRIVER, "requests": list(requests)}], **more}
    return from_dict(v1alpha2.ResourceClaimParameters, {"metadata": {"name": "p"}, **whole})


def starts(found: list[str], wanted: list[str]) -> None:
    """Each error begins as wanted."""
    assert len(found) == len(wanted), found
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def attribute(**value: Any) -> dict[str, Any]:
    """An instance with one attribute."""
    return {"name": "i", "attributes": [{"name": "a", **value}]}


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        (piece({"name": "i"}), []),
        (piece(nodeName=""), []),
        (piece(nodeName="A B"), ['nodeName: Invalid value: "A B"']),
        (piece(driverName=""), ["driverName: Required value"]),
        (piece(namedResources=None), [": Required value: exactly one structured model field must be set"]),
        (
            piece({"name": "A B"}, {"name": "i"}, {"name": "i"}),
            [
                'namedResources.instances[0].name: Invalid value: "A B"',
                'namedResources.instances[2].name: Duplicate value: "i"',
            ],
        ),
        (piece(attribute()), ["namedResources.instances[0].attributes[0]: Required value: exactly one value"]),
        (
            piece(attribute(int=1, bool=True)),
            ["namedResources.instances[0].attributes[0]: Invalid value: "],
        ),
        (
            piece(attribute(version="1.2")),
            ['namedResources.instances[0].attributes[0].version: Invalid value: "1.2"'],
        ),
        (
            piece({"name": "i", "attributes": [{"name": "a", "int": 1}, {"name": "a", "int": 2}]}),
            ['namedResources.instances[0].attributes[1].name: Duplicate value: "a"'],
        ),
    ],
)
def test_a_slice_says_whose_what_it_has(new: v1alpha2.ResourceSlice, wanted: list[str]) -> None:
    starts(said(NamedResourcesSliceStrategy().validate_create(new, context("1.30"))), wanted)


def test_whose_a_slice_is_never_changes() -> None:
    new = piece(nodeName="m", driverName="e.example.com")
    found = said(NamedResourcesSliceStrategy().validate_update(new, piece(), context("1.30")))
    assert found == [
        'nodeName: Invalid value: "m": field is immutable',
        'driverName: Invalid value: "e.example.com": field is immutable',
    ]


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        (of_claim(CHOICE), []),
        (of_claim(), ["driverRequests[0].requests: Required value: empty entries with no requests"]),
        (of_claim({}), ["driverRequests[0].requests[0]: Required value: exactly one structured model field"]),
        (
            of_claim({"namedResources": {"selector": ""}}),
            ["driverRequests[0].requests[0].namedResources.selector: Required value"],
        ),
        (
            of_claim({"namedResources": {"selector": "1"}}),
            ['driverRequests[0].requests[0].namedResources.selector: Invalid value: "1": must evaluate to bool'],
        ),
        (
            of_claim(CHOICE, generatedFrom={"kind": "", "name": ""}),
            ["generatedFrom.kind: Required value", "generatedFrom.name: Required value"],
        ),
        (
            of_claim(driverRequests=[{"driverName": DRIVER, "requests": [CHOICE]}] * 2),
            [f'driverRequests[1].driverName: Duplicate value: "{DRIVER}"'],
        ),
    ],
)
def test_parameters_of_a_claim_ask_each_driver_once(new: v1alpha2.ResourceClaimParameters, wanted: list[str]) -> None:
    starts(said(ClaimParametersStrategy().validate_create(new, context("1.30"))), wanted)


def test_stored_selectors_are_not_compiled_again() -> None:
    stored, strategy = of_claim({"namedResources": {"selector": "1"}}), ClaimParametersStrategy()
    assert said(strategy.validate_update(stored, stored, context("1.30"))) == []
    assert len(said(strategy.validate_update(stored, of_claim(CHOICE), context("1.30")))) == 1


def test_parameters_of_a_class_name_each_driver_once_and_are_always_new() -> None:
    chosen = {"driverName": DRIVER, **CHOICE}
    vendor = {"driverName": DRIVER, "parameters": {"a": "b"}}
    made = {"metadata": {"name": "p"}, "filters": [chosen, chosen], "vendorParameters": [vendor, vendor]}
    new = from_dict(v1alpha2.ResourceClassParameters, made)
    strategy = ClassParametersStrategy()
    wanted = [
        f'filters[1].driverName: Duplicate value: "{DRIVER}"',
        f'vendorParameters[1].driverName: Duplicate value: "{DRIVER}"',
    ]
    assert said(strategy.validate_create(new, context("1.30"))) == wanted
    broken = {"filters": [{"driverName": DRIVER}, {"driverName": "e", "namedResources": {"selector": "1"}}]}
    stored = from_dict(v1alpha2.ResourceClassParameters, broken)
    starts(
        said(strategy.validate_update(stored, stored, context("1.30"))),
        [
            "filters[0]: Required value: exactly one structured model field must be set",
            'filters[1].namedResources.selector: Invalid value: "1"',
        ],
    )


def test_tables_show_whose_slices_are_and_what_parameters_were_made_from() -> None:
    by_kind = {definition.kind: definition for definition in structured_definitions()}
    rows = {
        "ResourceSlice": piece(),
        "ResourceClaimParameters": of_claim(generatedFrom={"apiGroup": "g.example.com", "kind": "K", "name": "n"}),
        "ResourceClassParameters": v1alpha2.ResourceClassParameters(),
    }
    cells = {kind: by_kind[kind].cells(obj, 0.0)[:-1] for kind, obj in rows.items()}  # type: ignore[misc]
    assert cells == {
        "ResourceSlice": ["s", "n", DRIVER],
        "ResourceClaimParameters": ["p", "K.g.example.com n"],
        "ResourceClassParameters": ["", ""],
    }
    assert [len(by_kind[kind].columns) for kind in rows] == [4, 3, 3]
    fields = by_kind["ResourceSlice"].field_selectors
    assert {name: read(piece()) for name, read in fields.items()} == {"nodeName": "n", "driverName": DRIVER}
    assert [by_kind[kind].plural for kind in rows] == [
        "resourceslices",
        "resourceclaimparameters",
        "resourceclassparameters",
    ]
