"""Objects inside of custom objects are validated as objects are."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.custom.embedded import embedded_errors, has_embedded
from cathedra.apiserver.custom.schema import read_schema
from cathedra.releases import FeatureGates

EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
OBJECT = {"apiVersion": "v1", "kind": "Pod"}


def found(value: Any, *, schema: dict[str, Any] = EMBEDDED) -> list[str]:
    outer = read_schema({"type": "object", "properties": {"a": schema}})
    return [str(error) for error in embedded_errors(outer, {"a": value}, "", FeatureGates.for_release("1.37"))]


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        (OBJECT, []),
        (OBJECT | {"metadata": {"labels": {"x": "y"}}}, []),
        ({}, ["a.apiVersion: Required value", "a.kind: Required value"]),
        (OBJECT | {"kind": 5}, ["a.kind: Invalid value: 5: must be a string"]),
        (OBJECT | {"apiVersion": ""}, ['a.apiVersion: Invalid value: "": must not be empty']),
        (
            OBJECT | {"apiVersion": "a/b/c"},
            ['a.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        (
            OBJECT | {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n"}]}},
            ["a.metadata.ownerReferences[0].uid: Required value: must not be empty"],
        ),
    ],
)
def test_type_and_metadata_of_an_embedded_object_are_validated(value: Any, errors: list[str]) -> None:
    assert found(value) == errors


def test_a_kind_is_a_label_in_any_case() -> None:
    assert found(OBJECT | {"kind": "MyKind"}) == []
    (text,) = found(OBJECT | {"kind": "X_Y"})
    assert text.startswith('a.kind: Invalid value: "X_Y": may have mixed case, but should otherwise match: a DNS-1035')


def test_metadata_of_the_wrong_type_is_named() -> None:
    (text,) = found(OBJECT | {"metadata": {"labels": 5}})
    assert text.startswith("a.metadata: Invalid value")


def test_objects_are_found_in_lists_and_maps() -> None:
    assert found([OBJECT, {"kind": "A"}], schema={"type": "array", "items": EMBEDDED}) == [
        "a[1].apiVersion: Required value"
    ]
    assert found({"k": {"kind": "A"}}, schema={"type": "object", "additionalProperties": EMBEDDED}) == [
        "a[k].apiVersion: Required value"
    ]


def test_schemas_without_embedded_objects_are_known() -> None:
    assert has_embedded(read_schema({"type": "object", "properties": {"a": {"type": "array", "items": EMBEDDED}}}))
    assert not has_embedded(read_schema({"type": "object", "properties": {"a": {"type": "string"}}}))
