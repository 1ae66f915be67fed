"""What containers are told about their pod is something that pods have."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.downward import (
    ENVIRONMENT_FIELDS,
    VOLUME_FIELDS,
    validate_field_reference,
    validate_resource_reference,
)
from tests.costs import costs_less_than
from tests.unit.kinds.objects import context, created, definition_of, pod, texts

UNKNOWN = "error converting fieldPath: field label not supported"


def problems(name: str, allowed: tuple[str, ...] = ENVIRONMENT_FIELDS) -> list[str]:
    errors = ErrorList()
    reference = from_dict(core_v1.ObjectFieldSelector, {"fieldPath": name})
    validate_field_reference(errors, FieldPath("f"), reference, allowed)
    return texts(errors)


@pytest.mark.parametrize(
    "name", [*ENVIRONMENT_FIELDS, "spec.host", "metadata.labels['a/b']", "metadata.annotations['A/b']"]
)
def test_fields_that_pods_have_may_be_asked_for(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("", "f.fieldPath: Required value"),
        ("spec.x", f'f.fieldPath: Invalid value: "spec.x": {UNKNOWN}: spec.x'),
        ("metadata.labels", 'f.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name"'),
        ("status.phase", 'f.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name"'),
        (
            "spec.x['a']",
            "f.fieldPath: Invalid value: \"spec.x['a']\": error converting fieldPath: field label does not support "
            "subscript: spec.x['a']",
        ),
        ("metadata.labels['a b']", 'f: Invalid value: "a b": name part must consist of'),
        ("metadata.annotations['A b']", 'f: Invalid value: "a b": name part must consist of'),
    ],
)
def test_others_are_refused(name: str, wanted: str) -> None:
    (text,) = problems(name)
    assert text.startswith(wanted)


def test_fields_have_names_in_one_version() -> None:
    errors = ErrorList()
    reference = from_dict(core_v1.ObjectFieldSelector, {"fieldPath": "metadata.name", "apiVersion": "v2"})
    validate_field_reference(errors, FieldPath("f"), reference, ENVIRONMENT_FIELDS)
    assert texts(errors) == [
        'f.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2'
    ]


def test_a_volume_may_hold_all_labels_and_nothing_of_the_spec() -> None:
    assert problems("metadata.labels", VOLUME_FIELDS) == []
    assert problems("spec.nodeName", VOLUME_FIELDS)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("limits.cpu", []),
        ("requests.hugepages-2Mi", []),
        ("", ["f.resource: Required value"]),
        (
            "cpu",
            [
                'f.resource: Unsupported value: "cpu": supported values: "limits.cpu", "limits.ephemeral-storage", '
                '"limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"'
            ],
        ),
    ],
)
def test_resources_are_limits_or_requests(name: str, wanted: list[str]) -> None:
    errors = ErrorList()
    validate_resource_reference(errors, FieldPath("f"), from_dict(core_v1.ResourceFieldSelector, {"resource": name}))
    assert texts(errors) == wanted


def test_a_container_is_told_nothing_that_does_not_exist() -> None:
    env: list[dict[str, Any]] = [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "no"}}},
        {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "no"}}},
    ]
    found = texts(created(definition_of("pods").strategy, pod({"env": env}), context())[1])
    assert [text.partition(":")[0] for text in found] == [
        "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        "spec.containers[0].env[1].valueFrom.resourceFieldRef.resource",
    ]


def test_a_long_field_is_read_in_one_pass() -> None:
    """A pattern would look for the end once for each of the million beginnings."""
    with costs_less_than(2):
        (text,) = problems("a" + "['" * 500_000)
    assert UNKNOWN in text


@pytest.mark.parametrize("name", ["metadata.labels['']", "metadata.labels[']", "['a']", "metadata.labels"])
def test_what_has_no_key_or_no_field_is_no_subscript(name: str) -> None:
    assert problems(name) != []
