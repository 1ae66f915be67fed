"""Saturating arithmetic of sizes and costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.cel.checking.ranges import ONE, UNBOUNDED, ZERO, Range

amounts = st.integers(0, UNBOUNDED)
ranges = st.builds(lambda a, b: Range(min(a, b), max(a, b)), amounts, amounts)


@given(ranges, ranges)
def test_arithmetic_stays_within_64_bits_and_in_order(one: Range, other: Range) -> None:
    for made in (one.plus(other), one.times(other), one.union(other), one.scaled(0.1)):
        assert 0 <= made.low <= made.high <= UNBOUNDED


@given(ranges)
def test_zero_and_one_are_neutral(one: Range) -> None:
    assert one.plus(ZERO) == one
    assert one.times(ONE) == one
    assert one.union(one) == one
