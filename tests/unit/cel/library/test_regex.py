"""Regular expressions (docs/spec/cel.md §6.3)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("'abc123'.find('[0-9]+')", "123"),
        ("'abc'.find('[0-9]+')", ""),
        ("'a1b2c3'.findAll('[0-9]')", "[1, 2, 3]"),
        ("'a1b2c3'.findAll('[0-9]', 2)", "[1, 2]"),
        ("'abc'.matches('^a.c$')", "true"),
        ("'a'.matches(['(', 'x'][0])", "error: error parsing regexp: missing closing ): `(`"),
    ],
)
def test_patterns_are_re2(expression: str, result: str) -> None:
    assert shown(expression) == result
