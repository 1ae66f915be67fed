"""Values in buckets."""

from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from cathedra.histogram import Histogram

BOUNDS = (0.5, 1.0, 2.5)


def test_a_value_at_a_bound_lies_below_it() -> None:
    histogram = Histogram(BOUNDS)
    histogram.add(1.0)
    assert list(histogram.cumulative()) == [("0.5", 0), ("1.0", 1), ("2.5", 1), ("+Inf", 1)]


@given(st.lists(st.floats(0, 10)))
def test_buckets_count_what_is_not_above_their_bound(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.add(value)
    expected = [sum(value <= bound for value in values) for bound in BOUNDS]
    assert [count for _, count in histogram.cumulative()] == [*expected, len(values)]
    # sum() rounds once at its end from Python 3.12 on; a running total rounds at each step
    assert (histogram.number, histogram.total) == (len(values), reduce(add, values, 0.0))
