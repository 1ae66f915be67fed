"""Conversions (docs/spec/cel.md §5)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("int('5') + int(5u) + int(5.9)", "15"),
        ("int(['abc'][0])", "error: type conversion error from 'string' to 'int'"),
        ("uint([-1][0])", "error: unsigned integer overflow"),
        (f"int(['-{'0' * 5000}7'][0])", "-7"),
        (f"uint(['{'0' * 5000}'][0])", "0"),
        ("double(['1e3'][0])", "1000"),
        ("string(1e6)", "1e+06"),
        ("string(b'\\xff')", "error: program instantiation failed: invalid UTF-8 in bytes, cannot convert to string"),
        ("bool(['T'][0])", "true"),
        ("type(dyn(1u)) == uint", "true"),
        ("string(true)", "true"),
    ],
)
def test_conversions_give_values_or_kubernetes_words(expression: str, result: str) -> None:
    assert shown(expression) == result
