"""Timestamps and durations (docs/spec/cel.md §5)."""

from __future__ import annotations

import pytest

from cathedra.cel.library.times import parse_duration
from cathedra.cel.values import Duration
from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("string(duration('1h30m'))", "5400s"),
        ("duration('1.5s').getMilliseconds()", "1500"),
        ("timestamp('2024-02-29T12:30:45.5Z').getDayOfYear()", "59"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('+02:00')", "2"),
        ("timestamp('2024-01-01T00:00:00Z').getDayOfWeek()", "1"),
        ("string(timestamp(0) + duration('1s'))", "1970-01-01T00:00:01Z"),
        ("timestamp('2024-01-01T00:00:00Z') - timestamp('2023-12-31T00:00:00Z') == duration('24h')", "true"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('1s')", "error: timestamp overflow"),
        ("timestamp(0).getHours('Nowhere/Else')", "error: unknown time zone Nowhere/Else"),
    ],
)
def test_times_follow_go(expression: str, result: str) -> None:
    assert shown(expression) == result


@pytest.mark.parametrize("digits", [19, 5_000])
def test_a_duration_of_many_digits_is_no_duration(digits: int) -> None:
    assert parse_duration("9" * digits + "s") is None
    assert parse_duration("0" * digits + "7s") == Duration(7 * 10**9)
