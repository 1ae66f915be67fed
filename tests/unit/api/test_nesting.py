"""The bound on depth: exact for JSON, an upper bound for everything else, and cheap."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.nesting import MAX_DEPTH, NestingError, check_nesting, check_value_nesting, load_json
from tests.costs import costs_less_than

JSON = st.recursive(
    st.none() | st.booleans() | st.text("[]{}\\\"' :,\n", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}\\"', max_size=3), inner, max_size=3),
)


def depth(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(depth, items), default=0)


def refused(body: bytes | str, limit: int) -> bool:
    try:
        check_nesting(body, limit)
    except NestingError:
        return True
    return False


@given(JSON, st.integers(0, 8))
def test_json_is_refused_exactly_when_it_is_deeper_than_the_limit(value: Any, limit: int) -> None:
    for body in (json.dumps(value), json.dumps(value, indent=1), msgspec.json.encode(value)):
        assert refused(body, limit) == (depth(value) > limit)
    try:
        check_value_nesting(value, limit)
        assert depth(value) <= limit
    except NestingError:
        assert depth(value) > limit


@pytest.mark.parametrize("open_", ["[", '{"a":', '["x",', '[{"a":[', '["]",', '["\\"]",', '["\\\\",'])
def test_brackets_in_texts_neither_hide_depth_nor_add_to_it(open_: str) -> None:
    levels = sum(open_.replace('"]"', "").replace('"\\"]"', "").count(bracket) for bracket in "[{")
    rounds = MAX_DEPTH // levels
    check_nesting(open_ * rounds)
    with pytest.raises(NestingError, match="exceeded max depth"):
        check_nesting(open_ * (rounds + 1))


def test_a_text_full_of_brackets_is_flat() -> None:
    assert load_json(json.dumps({"a": "[" * 5000 + '"' + "{" * 5000})) == {"a": "[" * 5000 + '"' + "{" * 5000}


@pytest.mark.parametrize("unit", [b"[", b'"', b"{}", b'{"a":', b"\\", b'"a"', (b"[" * 199 + b"]" * 199) + b","])
def test_three_megabytes_cost_less_than_a_second(unit: bytes) -> None:
    body = unit * (3 * 1024 * 1024 // len(unit))
    with costs_less_than(1.0):
        refused(body, MAX_DEPTH)
