"""Structural schemas: pruning, defaulting, identity and depth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.decoding.reader import MOST_PROBLEMS
from cathedra.apiserver.custom.schema import MOST_DEFAULTS, DefaultRoom, deeper_than, identity, read_schema

OBJECT = {"type": "object"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def schema(**properties: Any) -> dict[str, Any]:
    return {**OBJECT, "properties": properties}


def test_unknown_fields_are_dropped_and_named() -> None:
    found = read_schema(schema(a={"type": "array", "items": schema(b={"type": "string"})}))
    problems: list[str] = []
    assert found.pruned({"x": 1, "a": [{"b": "c", "d": 1}]}, problems=problems) == {"a": [{"b": "c"}]}
    assert problems == ['unknown field "a[0].d"', 'unknown field "x"']


def test_what_is_preserved_is_kept_below_too() -> None:
    found = read_schema(schema(a={**OBJECT, "x-kubernetes-preserve-unknown-fields": True}))
    assert found.pruned({"a": {"b": {"c": 1}}}) == {"a": {"b": {"c": 1}}}


def test_an_embedded_resource_keeps_what_every_object_has() -> None:
    found = read_schema(schema(a={**OBJECT, "x-kubernetes-embedded-resource": True}))
    value = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}
    assert found.pruned({"a": {**value, "other": 1}}) == {"a": value}


def test_values_of_any_name_follow_the_schema_of_additional_properties() -> None:
    found = read_schema({**OBJECT, "additionalProperties": schema(a={"type": "string"})})
    assert found.pruned({"x": {"a": "1", "b": "2"}}) == {"x": {"a": "1"}}


def test_defaults_fill_in_what_is_absent_also_below_defaults() -> None:
    inner = {**schema(b={"type": "integer", "default": 7}), "default": {}}
    found = read_schema(schema(a=inner))
    assert found.filled({}) == {"a": {"b": 7}}
    assert found.filled({"a": {"b": 1}}) == {"a": {"b": 1}}


@pytest.mark.parametrize(("nullable", "wanted"), [(False, {"a": 7}), (True, {"a": None})])
def test_null_is_absent_unless_it_is_a_value(nullable: bool, wanted: dict[str, Any]) -> None:
    found = read_schema(schema(a={"type": "integer", "default": 7, "nullable": nullable}))
    assert found.filled({"a": None}) == wanted


@given(JSON)
def test_filling_in_twice_changes_no_more(value: Any) -> None:
    found = read_schema(
        {**schema(a={"default": 1}, b={"default": {}, **schema(c={"default": [1]})}), "additionalProperties": OBJECT}
    )
    once = found.filled(value)
    assert found.filled(once) == once


@given(JSON, JSON)
def test_two_values_share_an_identity_if_and_only_if_they_are_equal_as_json(one: Any, other: Any) -> None:
    def spelled(value: Any) -> str:
        return json.dumps(value, sort_keys=True)

    assert (identity(one) == identity(other)) is (spelled(one) == spelled(other))


def test_depth_counts_schemas_and_not_levels_of_json() -> None:
    source: dict[str, Any] = {"type": "string"}
    for _ in range(9):
        source = schema(a=source)
    assert not deeper_than(10, source)
    assert deeper_than(8, source)


def test_defaults_are_filled_in_as_far_as_there_is_room() -> None:
    large = {"type": "string", "default": "x" * 20_000}
    found = read_schema(schema(l={"type": "array", "items": schema(p=large)}))
    room = DefaultRoom()
    filled = found.filled({"l": [{} for _ in range(10_000)]}, room)
    assert room.exceeded
    assert sum("p" in item for item in filled["l"]) == MOST_DEFAULTS // 20_003
    assert filled["l"][0]["p"] is filled["l"][1]["p"]


def test_defaults_inside_of_defaults_are_bounded_too() -> None:
    inner: dict[str, Any] = {"type": "string", "default": "x"}
    for _ in range(8):
        items = {"type": "object", "properties": {"a": inner}}
        inner = {"type": "array", "items": items, "default": [{}] * 100}
    room = DefaultRoom()
    assert read_schema(schema(a=inner)).filled({}, room) == {}
    assert room.exceeded


def test_paths_of_unknown_fields_below_a_long_key_are_made_for_few_of_them() -> None:
    found = read_schema(schema() | {"additionalProperties": schema()})
    problems: list[str] = []
    found.pruned({"k" * 100_000: {f"a{n}": 1 for n in range(100_000)}}, problems=problems)
    assert len(problems) == MOST_PROBLEMS
    assert sum(map(len, problems)) < 100_000


def test_a_keyword_that_is_null_is_absent_and_values_of_instances_keep_their_nulls() -> None:
    inner = {"type": "integer", "maximum": None, "default": None, "enum": [1, None], "anyOf": [{"minimum": None}]}
    found = read_schema(schema(a=inner)).properties["a"]
    assert found.source == {"type": "integer", "enum": [1, None], "anyOf": [{}]}
    assert not found.has_default
