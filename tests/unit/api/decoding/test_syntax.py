"""Invalid JSON is reported with the texts of Go's decoder, whatever its size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.decoding.syntax import explain_syntax
from tests.costs import costs_less_than

WORDS = ['{"a":', '"a"', '"b\\n"', '"\\u00e9"', "1", "-0.5e3", "01", "true", "nul"]
PIECES = st.sampled_from([*WORDS, *'{}[],: \n"'])


def _refuse(name: str) -> object:
    raise ValueError(name)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_problem_is_found_exactly_where_there_is_one(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
        sound = True
    except ValueError:
        sound = False
    assert (explain_syntax(text) is None) == sound


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("a", "invalid character 'a' looking for beginning of value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,2,{},[],x]", "invalid character 'x' looking for beginning of value"),
        ("{} {}", "invalid character '{' after top-level value"),
        ('{a":1}', "invalid character 'a' looking for beginning of object key string"),
        ("1٣", "invalid character '٣' after top-level value"),
        ("[" * 300, "exceeded max depth"),
    ],
)
def test_go_words(text: str, problem: str) -> None:
    assert explain_syntax(text) == problem


@pytest.mark.parametrize("unit", ["1,", "{},", '"a",', "9", '["a":1],'])
def test_three_megabytes_take_less_than_two_seconds(unit: str) -> None:
    with costs_less_than(2.0):
        explain_syntax("[" + unit * (3 * 1024 * 1024 // len(unit)))
