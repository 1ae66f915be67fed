"""Quantities (docs/spec/cel.md §6.6)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("quantity('1Gi') == quantity('1024Mi')", "true"),
        ("quantity('1').isGreaterThan(quantity('500m'))", "true"),
        ("quantity('1').compareTo(quantity('2'))", "-1"),
        ("quantity('1.5').asInteger()", "error: cannot convert value to integer"),
        ("quantity('2k').asInteger()", "2000"),
        ("quantity('1').add(2).compareTo(quantity('3'))", "0"),
        ("sign(quantity('-1'))", "-1"),
        ("isQuantity('10GB')", "false"),
        ("quantity('1').isInteger()", "true"),
    ],
)
def test_quantities_compare_by_amount(expression: str, result: str) -> None:
    assert shown(expression) == result
