"""Conversions between the core types: ``int("5")``, ``string(1.5)``, ``timestamp(…)`` (docs/spec/cel.md §5)."""

from __future__ import annotations

import re
from typing import Final

from cathedra.cel.library import times
from cathedra.cel.library.operators import INT_OVERFLOW, UINT_OVERFLOW, timestamp_of
from cathedra.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    CELValue,
    Duration,
    Failure,
    Timestamp,
    TypeValue,
    UInt,
    go_float,
    scientific,
    type_name,
)

_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_INT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT: Final = re.compile(r"[0-9]+", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
_HEX_DOUBLE: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII)
_UNDERSCORE: Final = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)


def _failed(value: CELValue, target: str) -> Failure:
    return Failure(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_bool(value: CELValue) -> CELValue:
    """Convert to bool; a Failure if the text is no boolean."""
    if value.__class__ is bool:
        return value
    if value in _TRUE:
        return True
    return False if value in _FALSE else _failed(value, "bool")


def to_int(value: CELValue) -> CELValue:
    """Convert to int; a Failure if the value is out of range or no number."""
    kind = value.__class__
    if kind is int:
        return value
    if kind is UInt:
        return int(value) if value <= MAX_INT else INT_OVERFLOW
    if kind is float:
        return int(value) if MIN_INT < value < 2.0**63 else INT_OVERFLOW
    if kind is Duration:
        return value.nanos
    if kind is Timestamp:
        return value.nanos // 10**9
    # Python refuses to read thousands of digits, zeros in front included.
    digits = value.lstrip("+-").lstrip("0") if _INT.fullmatch(value) else None
    if digits is not None and len(digits) <= 19:
        number = -int(digits or "0") if value.startswith("-") else int(digits or "0")
        if MIN_INT <= number <= MAX_INT:
            return number
    return _failed(value, "int")


def to_uint(value: CELValue) -> CELValue:
    """Convert to uint; a Failure if the value is negative, out of range or no number."""
    kind = value.__class__
    if kind is UInt:
        return value
    if kind is int:
        return UInt(value) if value >= 0 else UINT_OVERFLOW
    if kind is float:
        return UInt(value) if 0 <= value < 2.0**64 else UINT_OVERFLOW
    digits = value.lstrip("0") if _UINT.fullmatch(value) else None
    if digits is not None and len(digits) <= 20 and int(digits or "0") <= MAX_UINT:
        return UInt(digits or "0")
    return _failed(value, "uint")


def to_double(value: CELValue) -> CELValue:
    """Convert to double; a Failure if the text is no number."""
    kind = value.__class__
    if kind is float:
        return value
    if kind is int or kind is UInt:
        return float(value)
    return parse_double(value) if parse_double(value) is not None else _failed(value, "double")


def parse_double(text: str) -> float | None:
    """As Go's strconv.ParseFloat reads it; None for anything else, also for what is too large."""
    if _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    plain = _UNDERSCORE.sub("", text)
    if not _DOUBLE.fullmatch(plain):
        return None
    number = float(plain)
    spelled = plain.lstrip("+-").lower().startswith("inf")
    return None if number in (float("inf"), float("-inf")) and not spelled else number


def to_string(value: CELValue) -> CELValue:
    """Convert to the string that CEL writes for the value."""
    kind = value.__class__
    if kind is str:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is UInt:
        return str(int(value))
    if kind is float:
        return double_text(value)
    if kind is Duration:
        return times.duration_text(value)
    if kind is Timestamp:
        return times.timestamp_text(value)
    if kind is bytes:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return Failure("invalid UTF-8 in bytes, cannot convert to string")
    return str(value)


def double_text(value: float) -> str:
    """Return the shortest digits that read back the same, with an exponent from 1e6 on and below 1e-4."""
    if value != value or value in (float("inf"), float("-inf")) or value == 0:
        return go_float(value)
    return go_float(value) if 1e-4 <= abs(value) < 1e6 else scientific(value)


def to_bytes(value: CELValue) -> CELValue:
    """Convert a string to its UTF-8 bytes."""
    return value if value.__class__ is bytes else value.encode("utf-8", "surrogatepass")


def to_duration(value: CELValue) -> CELValue:
    """Convert to a duration."""
    if value.__class__ is Duration:
        return value
    parsed = times.parse_duration(value) if value.__class__ is str else None
    return parsed if parsed is not None else _failed(value, "google.protobuf.Duration")


def to_timestamp(value: CELValue) -> CELValue:
    """Convert to a timestamp."""
    kind = value.__class__
    if kind is Timestamp:
        return value
    if kind is int:
        return timestamp_of(value * 10**9)
    parsed = times.parse_timestamp(value)
    return parsed if parsed is not None else _failed(value, "google.protobuf.Timestamp")


def to_type(value: CELValue) -> TypeValue:
    """Return the type of a value."""
    return TypeValue(type_name(value))
