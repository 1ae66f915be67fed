"""Literals that would fail at run time are mistakes of the expression."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import findings, shown


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("duration('1x')", [(9, "invalid duration argument")]),
        ("timestamp('yesterday')", [(10, "invalid timestamp argument")]),
        ("'a'.matches('(')", [(12, "invalid matches argument")]),
        (
            "'%d'.format(['a'])",
            [(13, "error during formatting: decimal clause can only be used on integers, was given string")],
        ),
        ("'%s'.format([1, 2])", [(11, "too many arguments supplied to string.format (expected 1, got 2)")]),
        ("[dyn(1), 'a']", [(9, "expected type 'dyn' but found 'string'")]),
        ("[1, null]", [(4, "expected type 'int' but found 'null'")]),
    ],
)
def test_bad_literals_are_refused(expression: str, found: list[tuple[int, str]]) -> None:
    assert [(offset, message) for offset, message in findings(expression)] == found


def test_what_is_no_literal_is_left_to_the_evaluation() -> None:
    assert shown("'a'.matches(dyn('a'))") == "true"
    assert shown("'%s %s'.format([1, 'a'])") == "1 a"
