"""The functions of the language itself."""

from __future__ import annotations

import pytest

from cathedra.cel.library import standard
from tests.unit.cel.asking import shown


@pytest.mark.parametrize("relation", ["_<_", "_<=_", "_>_", "_>=_"])
def test_numbers_of_all_types_have_one_order(relation: str) -> None:
    pairs = {(one.args[0].name, one.args[1].name) for one in standard.OVERLOADS[relation]}
    assert {("int", "uint"), ("uint", "double"), ("double", "int")} <= pairs
    assert ("int", "string") not in pairs


def test_getters_of_times_take_a_zone_and_those_of_durations_do_not() -> None:
    ids = [one.id for one in standard.OVERLOADS["getHours"]]
    assert ids == ["timestamp_to_hours", "timestamp_to_hours_with_tz", "duration_to_hours"]
    assert len(standard.OVERLOADS["getFullYear"]) == 2


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("timestamp('2024-02-29T23:30:00Z').getHours('+01:00')", "0"),
        ("duration('90m').getHours()", "1"),
        ("!dyn(1)", "error: no such overload"),
        ("'abc'.contains(dyn(1))", "error: no such overload"),
        ("'abc'.startsWith('ab') && 'abc'.endsWith('bc')", "true"),
        ("size('héé') + [1].size()", "4"),
    ],
)
def test_functions_compute(expression: str, result: str) -> None:
    assert shown(expression) == result
