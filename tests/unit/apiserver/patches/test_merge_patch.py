"""Merge patches: the standard's own examples, and what Kubernetes does with nulls in what is new."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.patches.merge_patch import merge_patch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@pytest.mark.parametrize(
    ("target", "patch", "wanted"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_standards_examples(target: Any, patch: Any, wanted: Any) -> None:
    assert merge_patch(target, patch) == wanted


def test_null_fields_vanish_from_what_is_new_also_within_lists() -> None:
    assert merge_patch({}, {"a": [{"b": None, "c": [{"d": None}]}]}) == {"a": [{"c": [{}]}]}
    assert merge_patch({"a": [1]}, {"a": [{"b": None}]}) == {"a": [{}]}


@given(OBJECTS, OBJECTS)
def test_neither_side_is_changed_and_a_third_time_changes_nothing(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    merged = merge_patch(target, patch)
    assert (target, patch) == before
    # The first time a list may replace an object, nulls in it and all; the second time it is a list that replaces one.
    again = merge_patch(merged, patch)
    assert merge_patch(again, patch) == again
