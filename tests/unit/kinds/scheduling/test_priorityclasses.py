"""Priority classes."""

from __future__ import annotations

from cathedra.api.core import scheduling_v1
from tests.unit.kinds.objects import problems_of_change


def test_the_value_of_a_priority_stays() -> None:
    assert problems_of_change("priorityclasses", scheduling_v1.PriorityClass, {"value": 1}, {"value": 2}) == [
        "value: Forbidden: may not be changed in an update."
    ]
