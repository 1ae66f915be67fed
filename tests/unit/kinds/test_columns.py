"""Durations and ages as kubectl prints them."""

from __future__ import annotations

import pytest

from cathedra.api.struct import Time
from cathedra.kinds.columns import age, human_duration
from tests.unit.kinds.objects import NOW


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (61 * 8, "8m8s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (47 * 3600, "47h"),
        (3 * 86400, "3d"),
        (10 * 86400, "10d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
        (-1, "0s"),
        (-5, "<invalid>"),
    ],
)
def test_durations_are_short(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_what_has_no_date_has_no_age() -> None:
    assert age(None, NOW) == "<unknown>"
    assert age(Time(NOW - 5), NOW) == "5s"
