"""The shape of schemas that can be pruned."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.custom.structural import is_unsupported, structural_errors

OBJECT: dict[str, Any] = {"type": "object"}
STRING: dict[str, Any] = {"type": "string"}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def wrong(field: dict[str, Any]) -> list[str]:
    """The errors of a root schema with a field ``a``."""
    return [str(error) for error in structural_errors(OBJECT | {"properties": {"a": field}}, "s")]


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ({}, "s.properties[a].type: Required value: must not be empty for specified object fields"),
        ({"type": "array"}, "s.properties[a].items: Required value: must be specified"),
        (
            {"type": "array", "items": {}},
            "s.properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (STRING | {"anyOf": [STRING]}, "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"),
        (
            STRING | {"not": {"default": "x"}},
            "s.properties[a].not.default: Forbidden: must be undefined to be structural",
        ),
        (
            STRING | {"allOf": [{"nullable": True}]},
            "s.properties[a].allOf[0].nullable: Forbidden: must be false to be structural",
        ),
        (
            STRING | {"oneOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]},
            "s.properties[a].oneOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            "s.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
            "x-kubernetes-int-or-string is true",
        ),
        (STRING | {"pattern": "("}, 's.properties[a].pattern: Invalid value: "(": must be a valid regular expression'),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(field: dict[str, Any], error: str) -> None:
    (found,) = wrong(field)
    assert found.startswith(error)


@pytest.mark.parametrize(
    "field",
    [
        {"x-kubernetes-int-or-string": True, "anyOf": INT_OR_STRING},
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": INT_OR_STRING}, {"pattern": "x"}]},
        {"x-kubernetes-preserve-unknown-fields": True},
        OBJECT | {"properties": {"b": STRING}, "anyOf": [{"required": ["b"]}, {"properties": {"b": {"enum": ["x"]}}}]},
    ],
)
def test_what_only_narrows_values_is_structural(field: dict[str, Any]) -> None:
    assert wrong(field) == []


@pytest.mark.parametrize(
    ("root", "error"),
    [
        ({}, "s.type: Required value: must not be empty at the root"),
        ({"type": "array", "items": STRING}, 's.type: Invalid value: "array": must be object at the root'),
        (OBJECT | {"additionalProperties": True}, "s.additionalProperties: Forbidden: must not be used at the root"),
        (
            OBJECT | {"anyOf": [{"properties": {"b": {"minLength": 1}}}]},
            "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
        ),
        (
            OBJECT | {"properties": {"kind": {"type": "integer"}}},
            's.properties[kind].type: Invalid value: "integer": must be string',
        ),
        (
            OBJECT | {"properties": {"metadata": OBJECT | {"properties": {"labels": OBJECT}}}},
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ),
    ],
)
def test_the_root_is_a_resource(root: dict[str, Any], error: str) -> None:
    assert [str(found) for found in structural_errors(root, "s")] == [error]


def test_the_names_of_metadata_may_be_narrowed() -> None:
    metadata = OBJECT | {"properties": {"name": STRING | {"maxLength": 5}}}
    assert structural_errors(OBJECT | {"properties": {"metadata": metadata}}, "s") == []


@pytest.mark.parametrize("extra", [{"id": "x"}, {"$ref": "x"}, {"definitions": {"x": STRING}}, {"items": [STRING]}])
def test_some_keywords_have_no_structural_form(extra: dict[str, Any]) -> None:
    assert is_unsupported(OBJECT | {"properties": {"a": STRING | extra}})
    assert not is_unsupported(OBJECT | {"properties": {"a": STRING}})
