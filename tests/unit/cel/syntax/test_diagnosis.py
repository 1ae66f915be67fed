"""All that is wrong with a text, at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cathedra.cel.syntax import diagnosis, parser
from tests.unit.cel.asking import PLAIN, findings, refusal
from tests.unit.cel.building import nonsense, selectors


@settings(max_examples=100, deadline=None)
@given(nonsense | selectors)
def test_there_are_issues_if_and_only_if_the_parser_refuses(source: str) -> None:
    try:
        parser.parse(source, PLAIN.macros)
    except parser.Invalid:
        assert diagnosis.diagnose(source, PLAIN.macros)
    else:
        assert diagnosis.diagnose(source, PLAIN.macros) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("9223372036854775808", [(0, "invalid int literal")]),
        ("if", [(0, "reserved identifier: if")]),
        ("a.`b`", [(2, "unsupported syntax: '`'")]),
        ("has(1)", [(4, "invalid argument to has() macro")]),
        ("[1].all(1, true)", [(8, "argument must be a simple name")]),
        ("[1].all(i, i, true)", [(11, "duplicate variable name: i")]),
        ("cel.bind(1, 1, 1)", [(9, "cel.bind() variable names must be simple identifiers")]),
        ("'\\uD800'", [(0, "invalid unicode code point")]),
        (
            "a & b",
            [
                (2, "Syntax error: token recognition error at: '& '"),
                (4, "Syntax error: extraneous input 'b' expecting <EOF>"),
            ],
        ),
        ("1 + 2" + " + 2" * 300, [(-1, "max recursion depth exceeded")]),
        ("(" * 300 + ")" * 300, [(-1, "expression recursion limit exceeded: 250")]),
    ],
)
def test_mistakes_of_all_kinds_are_worded_as_by_kubernetes(source: str, found: list[tuple[int, str]]) -> None:
    assert findings(source) == found


def test_mistakes_of_different_kinds_are_reported_together() -> None:
    assert [message for _, message in findings("let x = 1")] == [
        "Syntax error: token recognition error at: '= '",
        "Syntax error: mismatched input 'x' expecting <EOF>",
        "reserved identifier: let",
    ]


def test_a_report_shows_the_line_and_a_caret() -> None:
    assert refusal("true &&\n  !") == (
        "ERROR: <input>:2:4: Syntax error: extraneous input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', "
        "'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n |   !\n | ...^"
    )


def test_enormous_texts_are_refused_unread() -> None:
    assert findings("1" * 100_001) == [(-1, "expression code point size exceeds limit: size: 100001, limit 100000")]


def test_macros_that_multiply_are_stopped() -> None:
    assert any("parts once its macros are expanded" in message for _, message in findings("a" + ".optMap(x, x)" * 40))
