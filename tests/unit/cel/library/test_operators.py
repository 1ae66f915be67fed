"""Arithmetic (docs/spec/cel.md §5)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("-9223372036854775808 / -1", "error: integer overflow"),
        ("0u - 1u", "error: unsigned integer overflow"),
        ("1 % 0", "error: modulus by zero"),
        ("7 / -2", "-3"),
        ("-7 % 2", "-1"),
        ("1.0 / 0.0", "+Inf"),
        ("[1] + [2]", "[1, 2]"),
        ("b'a' + b'b' == b'ab'", "true"),
        ("-(-9223372036854775807)", "9223372036854775807"),
        ("dyn(1) + dyn(1.0)", "error: no such overload"),
    ],
)
def test_arithmetic_refuses_to_overflow(expression: str, result: str) -> None:
    assert shown(expression) == result
