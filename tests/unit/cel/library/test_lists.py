"""Functions of lists and sets (docs/spec/cel.md §6.2)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("[1, 2].sum()", "3"),
        ("[].sum()", "0"),
        ("[2, 1].min()", "1"),
        ("dyn([]).max()", "error: max called on empty list"),
        ("[1, 2].isSorted()", "true"),
        ("[1, 2, 1].lastIndexOf(1)", "2"),
        ("[1, 2].indexOf(3)", "-1"),
        ("[1, 2, 3].slice(1, 2)", "[2]"),
        ("[1].slice(0, 2)", "error: cannot slice(0, 2), list is length 1"),
        ("[[1], [2, 3]].flatten()", "[1, 2, 3]"),
        ("lists.range(3)", "[0, 1, 2]"),
        ("[1, 1, 2].distinct()", "[1, 2]"),
        ("[1, 2].reverse()", "[2, 1]"),
        ("[2, 1].sort()", "[1, 2]"),
        ("[].first()", "optional.none()"),
        ("[1, 2].last()", "optional(2)"),
        ("sets.contains([1, 2], [2])", "true"),
        ("sets.equivalent([1, 2], [2, 1, 1])", "true"),
        ("sets.intersects([1], [2])", "false"),
        ("[1, 2].includes(2)", "true"),
        ("dyn(5).includes(5)", "true"),
        ("'a'.includes('b')", "false"),
    ],
)
def test_functions_of_lists_give_what_kubernetes_gives(expression: str, result: str) -> None:
    assert shown(expression) == result
