"""Scores of any range brought to 0…100."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.scheduler.plugins.normalize import normalized


def test_the_largest_becomes_a_hundred_and_the_others_follow_rounded_down() -> None:
    assert normalized([3, 2, 0]) == [100, 66, 0]
    assert normalized([3, 2, 0], reverse=True) == [0, 34, 100]


def test_where_all_are_zero_none_is_worse() -> None:
    assert normalized([0, 0]) == [0, 0]
    assert normalized([0, 0], reverse=True) == [100, 100]
    assert normalized([]) == []


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_order_stays_and_turns_around_in_reverse(scores: list[int]) -> None:
    up, down = normalized(scores), normalized(scores, reverse=True)
    assert all(0 <= score <= 100 for score in (*up, *down))
    for one, other in zip(range(len(scores)), range(1, len(scores)), strict=False):
        if scores[one] <= scores[other]:
            assert up[one] <= up[other]
            assert down[one] >= down[other]
