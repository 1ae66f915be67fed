"""A histogram of seconds in plain numbers.

Figures are counted on the way of every request and call, and hardly ever read: a list of counts costs a tenth of
prometheus_client's objects, and a start need not load that library.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence


class Histogram:
    """Number of values in each bucket; ``bounds`` are inclusive."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """Of all values together."""

    def add(self, value: float) -> None:
        """Count one value in its bucket and in the total."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add_many(self, value: float, times: int) -> None:
        """Add one value a number of times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def merge(self, other: Histogram) -> None:
        """Add the values of another histogram with the same bounds."""
        self._counts = [mine + its for mine, its in zip(self._counts, other._counts, strict=True)]
        self.total += other.total

    @property
    def number(self) -> int:
        """Number of all values."""
        return sum(self._counts)

    def cumulative(self) -> Iterator[tuple[str, float]]:
        """Yield each bound as Prometheus writes it, with the number of values up to it."""
        number = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            number += count
            yield bound, number
