"""From how much to how much: sizes and costs in the estimate (`cathedra.cel.checking.cost`).

The arithmetic saturates at 2⁶⁴-1, as Kubernetes' does, and scales by way of doubles.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from cathedra.cel.values import MAX_UINT

__all__ = ["LIST_BASE", "MAP_BASE", "ONE", "STRUCT_BASE", "UNBOUNDED", "UNKNOWN", "ZERO", "Range", "capped"]

UNBOUNDED: Final = MAX_UINT
"""As much as you like."""


class Range(NamedTuple):
    """Least and most."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        """The sum, saturating."""
        return Range(capped(self.low + other.low), capped(self.high + other.high))

    def times(self, other: Range) -> Range:
        """The product, saturating."""
        return Range(capped(self.low * other.low), capped(self.high * other.high))

    def scaled(self, factor: float) -> Range:
        """Multiplied by a factor and rounded up."""
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        """The range around both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


def capped(value: int) -> int:
    """The value, as far as there is one."""
    return min(value, UNBOUNDED)


def _scale(value: int, factor: float) -> int:
    amount = float(value)
    if amount > 0 and factor > 0 and amount > UNBOUNDED / factor:
        return UNBOUNDED
    scaled = math.ceil(amount * factor)
    return UNBOUNDED if scaled >= 2**64 else scaled


ZERO: Final = Range(0, 0)
ONE: Final = Range(1, 1)
UNKNOWN: Final = Range(0, UNBOUNDED)
LIST_BASE: Final = Range(10, 10)
MAP_BASE: Final = Range(30, 30)
STRUCT_BASE: Final = Range(40, 40)
