"""Types of objects from schemas."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.cel.admission.objecttypes import ObjectTypes
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type


def typed(properties: dict[str, Any], components: dict[str, Any] | None = None) -> dict[str, dict[str, Type]]:
    collected = ObjectTypes()
    assert collected.of_kind({"type": "object", "properties": properties}, components or {}, "T") == types.struct("T")
    return collected.objects


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, types.STRING),
        ({"type": "string", "format": "date-time"}, types.TIMESTAMP),
        ({"type": "string", "format": "byte"}, types.BYTES),
        ({"type": "integer"}, types.INT),
        ({"type": "array", "items": {"type": "boolean"}}, types.list_of(types.BOOL)),
        ({"type": "object", "additionalProperties": {"type": "number"}}, types.map_of(types.STRING, types.DOUBLE)),
        ({"x-kubernetes-int-or-string": True}, types.DYN),
        ({"format": "int-or-string", "oneOf": []}, types.DYN),
    ],
)
def test_each_form_has_its_type(schema: dict[str, Any], expected: Type) -> None:
    assert typed({"a": schema})["T"]["a"] == expected


@pytest.mark.parametrize(
    "schema", [{}, {"oneOf": [{"type": "string"}]}, {"type": "array"}, {"type": "object", "additionalProperties": {}}]
)
def test_what_has_no_type_is_not_there(schema: dict[str, Any]) -> None:
    assert "a" not in typed({"a": schema})["T"]


def test_every_object_has_a_name_and_keeps_what_its_own_schema_says_of_metadata() -> None:
    bare = typed({})
    assert set(bare["T"]) == {"apiVersion", "kind", "metadata"}
    assert set(bare["T.metadata"]) == {"name", "generateName"}
    text = {"type": "string"}
    metadata = {"type": "object", "properties": {"name": text, "generateName": text, "uid": text}}
    full = typed(
        {"apiVersion": text, "kind": text, "metadata": {"allOf": [{"$ref": "#/components/schemas/M"}]}}, {"M": metadata}
    )
    assert set(full["T.metadata"]) == {"name", "generateName", "uid"}


def test_a_schema_that_contains_itself_ends_in_an_object_without_fields() -> None:
    again = {"type": "object", "properties": {"not": {"$ref": "#/components/schemas/S"}}}
    found = typed({"s": {"$ref": "#/components/schemas/S"}}, {"S": again})
    assert found["T.s"] == {"not": types.struct("T.s.not")}
    assert found["T.s.not"] == {}


def test_names_that_expressions_cannot_write_are_left_out_and_others_escaped() -> None:
    assert set(typed({"$a": {"type": "string"}, "a-b": {"type": "string"}})["T"]) >= {"a__dash__b"}
    assert "$a" not in typed({"$a": {"type": "string"}})["T"]
