"""From tree to text and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tools import celprinter

from cathedra.cel.syntax import macros, parser
from cathedra.cel.syntax.tree import Expr, walk
from tests.unit.cel.building import nonsense, selectors


def shape(root: Expr) -> list[Any]:
    """A tree without ids and places."""
    names = ("name", "field", "function", "test_only", "optional")
    return [
        (type(node), *(getattr(node, name, None) for name in names), repr(getattr(node, "value", None)))
        for node in walk(root)
    ]


@settings(max_examples=100, deadline=None)
@given(selectors | nonsense)
def test_what_is_printed_of_a_tree_is_read_as_the_same_tree(source: str) -> None:
    try:
        root = parser.parse(source, {})
    except parser.Invalid:
        return
    printed = celprinter.show(root)
    assert shape(parser.parse(printed, {})) == shape(root)
    assert celprinter.show(parser.parse(printed, {})) == printed


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("a+b*c", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("a&&b&&c&&d", "a && b && c && d"),
        ("a && (b && c)", "a && (b && c)"),
        ("-(5)", "-(5)"),
        ("!(a||b)", "!(a || b)"),
        ("(a?b:c)?d:e", "(a ? b : c) ? d : e"),
        ("m{f:1, ?g:2}", "m{f: 1, ?g: 2}"),
        ("{?'k':1, 2:[?x,3]}", '{?"k": 1, 2: [?x, 3]}'),
        ("a.?b[?c].d(e)", "a.?b[?c].d(e)"),
        ("b'\\xff\"' == b''", 'b"\\xff\\x22" == b""'),
        ("5u + 1.0 in .x", "5u + 1.0 in .x"),
    ],
)
def test_only_needed_parentheses_are_written(source: str, printed: str) -> None:
    assert celprinter.show(parser.parse(source, {})) == printed


def test_a_presence_test_is_printed_as_the_macro_it_was() -> None:
    assert celprinter.show(parser.parse("has(a.b)", macros.STANDARD)) == "has(a.b)"


def test_expanded_loops_have_no_text() -> None:
    with pytest.raises(ValueError, match="macro"):
        celprinter.show(parser.parse("[1].all(x, x > 0)", macros.STANDARD))
