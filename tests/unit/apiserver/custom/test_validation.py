"""Validation of values by a schema, with Kubernetes' texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.custom.schema import read_schema
from cathedra.apiserver.custom.validation import MAX_ERRORS, Validator, validate

NUMBER = {"type": "number"}
STRING = {"type": "string"}


def wrong(source: dict[str, Any], value: Any) -> list[str]:
    """The details of everything that is wrong with a value at ``spec``."""
    return [error.detail for error in validate(read_schema(source), value, "spec")]


@pytest.mark.parametrize(
    ("source", "value", "detail"),
    [
        ({"type": "integer"}, "1", 'spec in body must be of type integer: "string"'),
        ({"type": "integer"}, True, 'spec in body must be of type integer: "boolean"'),
        (STRING, None, 'spec in body must be of type string: "null"'),
        (STRING | {"minLength": 3}, "ab", "spec in body should be at least 3 chars long"),
        (STRING | {"pattern": "^a+$"}, "b", "spec in body should match '^a+$'"),
        (STRING | {"format": "ipv4"}, "::1", 'spec in body must be of type ipv4: "::1"'),
        (NUMBER | {"maximum": 5}, 6, "spec in body should be less than or equal to 5"),
        (NUMBER | {"maximum": 5, "exclusiveMaximum": True}, 5, "spec in body should be less than 5"),
        (NUMBER | {"minimum": 5}, 4.5, "spec in body should be greater than or equal to 5"),
        (NUMBER | {"multipleOf": 0.1}, 0.25, "spec in body should be a multiple of 0.1"),
        ({"type": "array", "minItems": 2}, [1], "spec in body should have at least 2 items"),
        ({"type": "object", "minProperties": 1}, {}, "spec in body should have at least 1 properties"),
        ({"not": STRING}, "a", '"spec" must not validate the schema (not)'),
    ],
)
def test_a_value_that_the_schema_forbids_is_refused(source: dict[str, Any], value: Any, detail: str) -> None:
    assert wrong(source, value) == [detail]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"type": "integer"}, 5.0),
        (STRING | {"nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        (NUMBER | {"multipleOf": 0.5}, 1.5),
        ({"type": "integer", "format": "int32"}, 2**31 - 1),
        (STRING | {"enum": ["a", "b"]}, "b"),
    ],
)
def test_a_value_that_the_schema_allows_passes(source: dict[str, Any], value: Any) -> None:
    assert wrong(source, value) == []


def test_exactly_one_of_the_alternatives_must_hold() -> None:
    source = {"oneOf": [NUMBER | {"minimum": 1}, NUMBER | {"minimum": 5}]}
    assert wrong(source, 3) == []
    assert wrong(source, 7) == ['"spec" must validate one and only one schema (oneOf). Found 2 valid alternatives']
    assert wrong(source, 0) == ['"spec" must validate one and only one schema (oneOf). Found none valid']


def test_sets_and_maps_have_no_duplicates() -> None:
    errors = validate(read_schema({"type": "array", "x-kubernetes-list-type": "set"}), [1, 2, 1, True], "spec")
    assert [error.field for error in errors] == ["spec[2]"]
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    errors = validate(read_schema(keyed), [{"name": "a", "x": 1}, {"name": "a", "x": 2}], "spec")
    assert [error.field for error in errors] == ["spec[1]"]


def nested_any_of(depth: int) -> dict[str, Any]:
    return STRING if not depth else {"anyOf": [nested_any_of(depth - 1), NUMBER]}


def test_the_work_on_nested_alternatives_grows_with_their_depth_and_not_with_its_power() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1

    errors = Validator(read_schema(nested_any_of(60))).errors([], "spec", check)
    assert errors[0].detail == '"spec" must validate at least one schema (anyOf)'
    assert calls < 20_000  # two to the power of 60, if each level validated its first alternative twice


def test_the_walk_over_a_wrong_object_ends_after_some_errors() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1

    source = {"type": "array", "items": STRING | {"anyOf": [{"pattern": f"^x{n}$"} for n in range(20)]}}
    errors = Validator(read_schema(source)).errors(["y"] * 10_000, "spec", check)
    assert len(errors) == MAX_ERRORS + 1
    assert errors[-1].detail == "there are more errors, which are not listed"
    assert calls < 50_000


def test_a_long_list_of_allowed_values_is_cut_and_made_once() -> None:
    source = {"type": "array", "items": STRING | {"enum": [f"v{n:05}" for n in range(10_000)]}}
    first, second, *_ = validate(read_schema(source), ["y"] * 50, "spec")
    assert first.message.endswith('"v00099", and 9900 more')
    assert first.names is not None
    assert second.names is not None
    assert first.names.names is second.names.names


def test_long_paths_and_texts_end_the_walk_too() -> None:
    source = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": NUMBER}}
    errors = validate(read_schema(source), {"k" * 50_000: {f"a{n}": "x" * 1000 for n in range(1000)}}, "")
    assert len(errors) < MAX_ERRORS


def test_an_interruption_ends_the_walk_over_a_list() -> None:
    class Over(Exception):
        pass

    def check() -> None:
        raise Over

    with pytest.raises(Over):
        Validator(read_schema({"type": "array", "items": STRING})).accepts(["a"] * 1000, check)


def test_required_fields_are_named_with_their_path() -> None:
    source = {"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}}
    assert [error.field for error in validate(read_schema(source), {"a": {}}, "")] == ["a.b"]


@given(
    kind=st.sampled_from(["integer", "string", "boolean", "number", "array", "object"]),
    value=st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.floats(), st.just([]), st.just({})
    ),
)
def test_a_schema_that_says_no_more_than_a_type_judges_as_one_that_adds_what_all_keep(kind: str, value: Any) -> None:
    assert wrong({"type": kind}, value) == wrong({"type": kind, "allOf": []}, value)


@pytest.mark.parametrize(
    ("schema", "value", "named"),
    [
        (
            {"type": "array", "minItems": 2, "items": {"type": "string"}},
            ["a"],
            "x: Too few: 1: must have at least 2 items",
        ),
        ({"type": "object", "minProperties": 1}, {}, "x: Too few: 0: must have at least 1 item"),
    ],
)
def test_from_138_on_too_few_items_are_named(schema: Any, value: Any, named: str) -> None:
    """kubernetes/kubernetes#141641."""
    validator = Validator(read_schema(schema))
    assert [str(error) for error in validator.errors(value, "x", names_few=True)] == [named]
    assert "x in body should have at least" in str(validator.errors(value, "x")[0])


def test_a_repeated_element_is_reported_once() -> None:
    """Further ones are not (k8s.io/apiextensions-apiserver, pkg/apiserver/schema/listtype/validation.go)."""
    schema = read_schema({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
    assert [str(error) for error in Validator(schema).errors(["a", "a", "b", "a", "b"], "s")] == [
        's[1]: Duplicate value: "a"',
        's[4]: Duplicate value: "b"',
    ]


def test_elements_of_a_keyed_list_are_objects() -> None:
    item = {"type": "object", "properties": {"k": {"type": "string"}}}
    marks = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    found = Validator(read_schema({"type": "array", "items": item} | marks)).errors([{"k": "a"}, 5, {"k": "a"}], "s")
    assert [str(error).partition(" in body")[0] for error in found] == [
        's[1]: Invalid value: "integer": s[1]',
        "s[1]: Invalid value: 5: must be an object for an array of list-type map",
    ]
