"""Functions of optionals."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.cel.library.optionals import is_zero
from cathedra.cel.values import NONE, Duration, Optional, Timestamp, UInt
from tests.unit.cel.asking import shown


@pytest.mark.parametrize("value", [None, False, 0, UInt(0), 0.0, "", b"", [], {}, Duration(0), NONE])
def test_nothing_is_a_zero_of_each_type(value: Any) -> None:
    assert is_zero(value)


@pytest.mark.parametrize("value", [True, -1, UInt(1), "0", [0], {"a": 0}, Duration(1), Timestamp(0), Optional(0)])
def test_everything_else_is_something(value: Any) -> None:
    assert not is_zero(value)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("optional.of(1).value()", "1"),
        ("optional.none().orValue(2)", "2"),
        ("optional.none().value()", "error: optional.none() dereference"),
        ("optional.ofNonZeroValue('').hasValue()", "false"),
        ("[1, 2].first().value() + [1, 2].last().value()", "3"),
        ("[].first().hasValue()", "false"),
        ("optional.of(optional.none()).hasValue()", "true"),
        ("optional.ofNonZeroValue(optional.none()).hasValue()", "false"),
        ("{'a': optional.none()}.?a.hasValue()", "true"),
        ("[optional.none()]", "[optional.none()]"),
        ("optional.unwrap([optional.of(1), optional.none(), optional.of(3)])", "[1, 3]"),
    ],
)
def test_optionals_compute(expression: str, result: str) -> None:
    assert shown(expression) == result
