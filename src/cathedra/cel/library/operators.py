"""Arithmetic and order: 64-bit integers that refuse to overflow, doubles, times, texts and lists
(docs/spec/cel.md §5)."""

from __future__ import annotations

import math
from typing import Final

from cathedra.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NO_SUCH_OVERLOAD,
    CELValue,
    Duration,
    Failure,
    MutableList,
    Timestamp,
    UInt,
    compare,
    contains,
    find,
    holdable,
)

INT_OVERFLOW: Final = Failure("integer overflow")
UINT_OVERFLOW: Final = Failure("unsigned integer overflow")
DURATION_OVERFLOW: Final = Failure("integer overflow")
TIMESTAMP_OVERFLOW: Final = Failure("timestamp overflow")
DIVISION_BY_ZERO: Final = Failure("division by zero")
MODULUS_BY_ZERO: Final = Failure("modulus by zero")
FIRST_MOMENT: Final = -62135596800 * 10**9
LAST_MOMENT: Final = 253402300799 * 10**9 + 999_999_999


def int_of(value: int) -> int | Failure:
    """``value`` if it fits 64 bits."""
    return value if MIN_INT <= value <= MAX_INT else INT_OVERFLOW


def uint_of(value: int) -> UInt | Failure:
    """``value`` if it fits 64 bits unsigned."""
    return UInt(value) if 0 <= value <= MAX_UINT else UINT_OVERFLOW


def duration_of(nanos: int) -> Duration | Failure:
    """Return a duration within 64 bits of nanoseconds."""
    return Duration(nanos) if MIN_INT <= nanos <= MAX_INT else DURATION_OVERFLOW


def timestamp_of(nanos: int, offset: int = 0) -> Timestamp | Failure:
    """Return a moment between the years 1 and 9999."""
    return Timestamp(nanos, offset) if FIRST_MOMENT <= nanos <= LAST_MOMENT else TIMESTAMP_OVERFLOW


def add(left: CELValue, right: CELValue) -> CELValue:
    """Return ``left + right``."""
    kind = left.__class__
    if kind is MutableList and isinstance(right, list):
        left.extend(right)
        return left
    if isinstance(left, list):
        if not isinstance(right, list):
            return NO_SUCH_OVERLOAD
        holdable(len(left) + len(right), list)
        return [*left, *right]
    if kind is Duration and right.__class__ is Timestamp:
        return timestamp_of(left.nanos + right.nanos, right.offset)
    if kind is Timestamp and right.__class__ is Duration:
        return timestamp_of(left.nanos + right.nanos, left.offset)
    if kind is not right.__class__:
        return NO_SUCH_OVERLOAD
    if kind is int:
        return int_of(left + right)
    if kind is UInt:
        return uint_of(int(left) + int(right))
    if kind is Duration:
        return duration_of(left.nanos + right.nanos)
    if kind is Timestamp:
        return NO_SUCH_OVERLOAD
    if kind is str or kind is bytes:
        holdable(len(left) + len(right), kind)
    return left + right


def subtract(left: CELValue, right: CELValue) -> CELValue:
    """Return ``left - right``."""
    kind, other = left.__class__, right.__class__
    if kind is Timestamp and other is Duration:
        return timestamp_of(left.nanos - right.nanos, left.offset)
    if kind is not other:
        return NO_SUCH_OVERLOAD
    if kind is int:
        return int_of(left - right)
    if kind is UInt:
        return uint_of(int(left) - int(right))
    if kind is Duration or kind is Timestamp:
        return duration_of(left.nanos - right.nanos)
    return left - right


def multiply(left: CELValue, right: CELValue) -> CELValue:
    """Return ``left * right``."""
    kind = left.__class__
    if kind is not right.__class__:
        return NO_SUCH_OVERLOAD
    if kind is int:
        return int_of(left * right)
    if kind is UInt:
        return uint_of(int(left) * int(right))
    return left * right


def divide(left: CELValue, right: CELValue) -> CELValue:
    """``left / right``; integers towards zero, doubles to infinity."""
    kind = left.__class__
    if kind is not right.__class__:
        return NO_SUCH_OVERLOAD
    if kind is float:
        return _divide_double(left, right)
    if right == 0:
        return DIVISION_BY_ZERO
    if kind is UInt:
        return UInt(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return int_of(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: CELValue, right: CELValue) -> CELValue:
    """``left % right``, with the sign of the dividend."""
    kind = left.__class__
    if kind is not right.__class__:
        return NO_SUCH_OVERLOAD
    if right == 0:
        return MODULUS_BY_ZERO
    if kind is UInt:
        return UInt(int(left) % int(right))
    if left == MIN_INT and right == -1:
        return INT_OVERFLOW
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate(value: CELValue) -> CELValue:
    """Return ``-value``, or a Failure on overflow."""
    kind = value.__class__
    if kind is bool:
        return NO_SUCH_OVERLOAD
    if kind is int:
        return int_of(-value)
    if kind is Duration:
        return duration_of(-value.nanos)
    return -value


def ordered(wanted: tuple[int, ...]) -> CELValue:
    """Return a comparison that is true when the order is one of ``wanted``."""

    def relation(left: CELValue, right: CELValue) -> bool | Failure:
        order = compare(left, right)
        return order if isinstance(order, Failure) else order in wanted

    return relation


def is_in(value: CELValue, container: CELValue) -> bool | Failure:
    """Return True if the container has the value."""
    if isinstance(container, dict):
        if getattr(container, "default", None) is not None:
            return value.__class__ is str and value in container
        return find(container, value)[1]
    if isinstance(container, list):
        return contains(container, value)
    return NO_SUCH_OVERLOAD
