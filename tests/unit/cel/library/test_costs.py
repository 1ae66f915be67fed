"""The cost of one call."""

from __future__ import annotations

import pytest

from cathedra.cel.library import registry
from cathedra.cel.library.costs import size, traversal
from cathedra.cel.values import Optional, UInt


@pytest.mark.parametrize(
    ("function", "overload", "args", "result", "cost"),
    [
        ("_==_", "equals", ["a" * 25, "b" * 30], False, 3),
        ("startsWith", "starts_with_string", ["a" * 11, "b"], False, 2),
        ("contains", "contains_string", ["a" * 11, "b" * 11], False, 4),
        ("matches", "matches_string", ["a" * 10, "b" * 5], False, 4),
        ("@in", "in_list", [1, [1, 2, 3]], True, 3),
        ("replace", "string_replace_string_string", ["a" * 10, "a", "b"], "", 2),
        ("join", "list_join", [["a"]], "a" * 10, 2),
        ("check", "resourcecheck_check", [None, "get"], None, 350_000),
        ("flatten", "list_flatten_int", [[[1]], "not a number"], None, 12),
        ("sum", "list_int_sum_int", [[1, 2, 3]], 6, 3),
    ],
)
def test_calls_cost_what_kubernetes_counts(
    function: str, overload: str, args: list[object], result: object, cost: int
) -> None:
    (found,) = (one for one in registry.OVERLOADS[function] if one.id == overload)
    assert registry.count(function, found, args, result) == cost


def test_sizes_are_those_of_texts_and_containers() -> None:
    assert (size("héé"), size([1, 2]), size(UInt(7)), size(Optional("abc"))) == (3, 2, 1, 1)


def test_a_walk_counts_every_scalar() -> None:
    assert traversal([1, [2, 3], {"a": "b" * 20}]) == 5
