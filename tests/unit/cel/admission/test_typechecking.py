"""Warnings about expressions that do not fit the kinds that they are about."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.cel.admission import KindSchema, TypeWarning, type_warnings
from cathedra.cel.admission._typechecking import ObjectTypes
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type


def kind(name: str, **fields: Any) -> KindSchema:
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    return KindSchema(f"apps/v1, Kind={name}", name, schema, {})


NUMBER = {"type": "integer"}
DEPLOYMENT = kind("Deployment", replicas=NUMBER)


def warned(expression: str, *kinds: KindSchema, params: KindSchema | None = None, **spec: Any) -> list[TypeWarning]:
    return type_warnings({"validations": [{"expression": expression}], **spec}, kinds or (DEPLOYMENT,), params)


def test_what_fits_is_not_warned_of() -> None:
    assert warned("object.spec.replicas > 1 && oldObject == null && object.metadata.name != ''") == []


def test_a_field_that_is_not_there_is_shown_for_each_kind() -> None:
    (found,) = warned("object.replicas > 1", DEPLOYMENT, kind("ReplicaSet"))
    assert found.field == "spec.validations[0].expression"
    assert found.text == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n"
        "\napps/v1, Kind=ReplicaSet: ERROR: <input>:1:7: undefined field 'replicas'\n"
        " | object.replicas > 1\n | ......^\n"
    )


def test_messages_are_checked_too_and_what_an_expression_results_in_does_not_count() -> None:
    rules = [{"expression": "object.spec.replicas", "messageExpression": "object.spec.none"}]
    (found,) = type_warnings({"validations": rules}, (DEPLOYMENT,), None)
    assert found.field == "spec.validations[0].messageExpression"
    assert "undefined field 'none'" in found.text


def test_variables_have_the_types_of_their_expressions_but_objects_lose_theirs() -> None:
    variables = [
        {"name": "count", "expression": "object.spec.replicas"},
        {"name": "spec", "expression": "object.spec"},
        {"name": "broken", "expression": "object.none"},
    ]
    (found,) = warned("variables.count == 'a'", variables=variables)
    assert "found no matching overload for '_==_' applied to '(int, string)'" in found.text
    assert warned("variables.spec.anything == 1 && variables.broken == 2", variables=variables) == []


def test_parameters_are_typed_and_unknown_without_a_schema() -> None:
    limits = kind("Limits", most=NUMBER)
    assert warned("object.spec.replicas <= params.spec.most", params=limits) == []
    (typed,) = warned("params.most == 1", params=limits)
    assert "undefined field 'most'" in typed.text
    (unknown,) = warned("params.most == 1")
    assert "undeclared reference to 'params'" in unknown.text


def test_types_are_named_by_kind_and_mark() -> None:
    (found,) = type_warnings({"validations": [{"expression": "object.spec == 1"}]}, (DEPLOYMENT,), None, "7")
    assert "'(Deployment7.spec, int)'" in found.text


def test_without_kinds_nothing_is_checked() -> None:
    assert type_warnings({"validations": [{"expression": "object.spec == 1"}]}, (), None) == []


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
