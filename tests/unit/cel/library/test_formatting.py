"""Format strings, in the older form (docs/spec/cel.md §6.1)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("'%d %s %%'.format([5, 'a'])", "5 a %"),
        ("'%.3f'.format([1.23456])", "1.235"),
        ("'%f'.format([1234.5])", "1,234.500000"),
        ("'%e'.format([1234.5])", "1.234500×10⁰³"),
        ("'%f'.format([dyn('Infinity')])", "∞"),
        ("'%b %o %x %X'.format([5, 8, 255, 255])", "101 10 ff FF"),
        ("'%x'.format(['hi'])", "6869"),
        ("'%s'.format([[1, 2]])", "[1, 2]"),
        ("'%s'.format([{'b': 1, 'a': null}])", '{"a":null, "b":1}'),
        (
            "'%d'.format([dyn('a')])",
            "error: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%.257f'.format([1.5])", "1.5"),
        ("'%s'.format([-0.0])", "-0"),
        ("'%f'.format([-0.0])", "-0.000000"),
        ("'%s'.format([type(1)])", "int"),
    ],
)
def test_clauses_write_what_kubernetes_writes(expression: str, result: str) -> None:
    assert shown(expression) == result
