"""The estimate, which decides about admission (docs/spec/cel.md §7.3)."""

from __future__ import annotations

import pytest

from cathedra.cel.checking.cost import estimate
from cathedra.cel.library.estimates import UNBOUNDED
from cathedra.cel.selector import compile_selector
from tests.unit.cel.asking import PLAIN


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ("device.driver == 'd'", 3),
        ("device.attributes['d'].b", 4),
        ("device.attributes['d'].i == 5", 5),
        ("google.protobuf.Int64Value{value: 5} == 5", 41),
        ("type(duration('1s')) == google.protobuf.Duration", 1844674407370955267),
    ],
)
def test_estimates_are_kubernetes_own(expression: str, cost: int) -> None:
    assert compile_selector(expression, mode="new").max_cost == cost


def test_unknown_sizes_are_unbounded() -> None:
    from cathedra.cel.checking import types
    from cathedra.cel.program import compile_expression

    root = compile_expression("x.all(a, x.all(b, x.all(c, true)))", PLAIN.extend({"x": types.DYN})).root
    assert estimate(root, None) == UNBOUNDED
