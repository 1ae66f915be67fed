"""Trees and places of correct expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cathedra.cel.syntax import macros, parser
from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, Ident, walk
from tests.unit.cel.building import nonsense, selectors


def tree(source: str, table: macros.MacroTable | None = None) -> Expr:
    return parser.parse(source, table if table is not None else {})


def test_operators_bind_as_in_the_language_definition() -> None:
    root = tree("1 + 2 * 3 == 7 && !a || b ? c : d")
    assert isinstance(root, CallExpr)
    assert root.function == "_?_:_"
    assert isinstance(root.args[0], CallExpr)
    assert root.args[0].function == "_||_"


def test_long_chains_of_logic_make_trees_of_little_depth() -> None:
    assert tree(" && ".join(["a"] * 64)).depth <= 7


def test_an_even_number_of_signs_vanishes() -> None:
    assert isinstance(tree("!!a"), Ident)
    negated = tree("---a")
    assert isinstance(negated, CallExpr)
    assert negated.function == "-_"


def test_a_minus_before_a_number_belongs_to_it() -> None:
    literal = tree("-5")
    assert isinstance(literal, Const)
    assert literal.value == -5


def test_operators_are_reported_at_the_operator_and_calls_at_their_parenthesis() -> None:
    assert tree("a + b").offset == 2
    assert tree("a.f(b)").offset == 3
    assert tree("a[b]").offset == 1
    assert tree("a.b").offset == 1


def test_every_node_knows_the_text_it_came_from() -> None:
    source = "a.b[1] + f(c)"
    root = tree(source)
    assert [source[node.start : node.end] for node in walk(root)][:5] == [source, "a.b[1]", "a.b", "a", "1"]


def test_macros_are_expanded_where_they_stand() -> None:
    root = tree("[1].all(x, x > 0)", macros.STANDARD)
    assert isinstance(root, Comprehension)
    assert (root.macro, root.var, root.start, root.end) == ("all", "x", 0, 17)


@pytest.mark.parametrize("source", ["", "1 +", "a b", "(", "[1,,2]", "a.`b`", "if", "1 2", "'a", "f(,)", "{a}"])
def test_incorrect_text_is_refused(source: str) -> None:
    with pytest.raises(parser.Invalid):
        tree(source)


@pytest.mark.parametrize("unit", ["(", "[", "{1: ", "f(", "a ? b : ", "!", "-", "1 + ", "a."])
def test_nesting_without_end_is_refused_and_nothing_else_happens(unit: str) -> None:
    with pytest.raises(parser.Invalid):
        tree(unit * 3000)


@settings(max_examples=100, deadline=None)
@given(selectors | nonsense)
def test_children_lie_within_their_parents(source: str) -> None:
    try:
        root = tree(source)
    except parser.Invalid:
        return
    for node in walk(root):
        assert all(node.start <= child.start and child.end <= node.end for child in node.children())
