"""Numbers and booleans in query parameters, as Kubernetes reads them.

The conversions are those of ``runtime.Convert_Slice_string_To_int64`` and ``…_To_bool`` of apimachinery. Every
number that a client sends as text is parsed here. The length is checked before the value, so that a number of a
million digits costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.goquote import go_quote

INT64_DIGITS: Final = 19
UINT64_DIGITS: Final = 20
_SHOWN: Final = 256
"""Limit of a bad number in its error, in letters."""


class NumberError(ValueError):
    """A text that is not a number, or out of range. The message is that of Go's ``strconv``."""

    def __init__(self, function: str, text: str, why: str) -> None:
        self.text = text
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        super().__init__(f"strconv.{function}: parsing {go_quote(shown)}: {why}")


def parse_int64(text: str) -> int:
    """Return a signed number of 64 bits.

    Raises:
        NumberError: it is none, or out of range.
    """
    digits = text[1:] if text[:1] in {"+", "-"} else text
    magnitude = _magnitude("ParseInt", text, digits, INT64_DIGITS)
    value = -magnitude if text[0] == "-" else magnitude
    if not -(1 << 63) <= value < 1 << 63:
        raise NumberError("ParseInt", text, "value out of range")
    return value


def parse_uint64(text: str) -> int:
    """Return a number of 64 bits without sign.

    Raises:
        NumberError: it is none, or out of range.
    """
    value = _magnitude("ParseUint", text, text, UINT64_DIGITS)
    if value >= 1 << 64:
        raise NumberError("ParseUint", text, "value out of range")
    return value


def _magnitude(function: str, text: str, digits: str, longest: int) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise NumberError(function, text, "invalid syntax")
    if len(digits) > longest:
        digits = digits.lstrip("0") or "0"
        if len(digits) > longest:
            raise NumberError(function, text, "value out of range")
    return int(digits)


def says_true(values: Sequence[str]) -> bool:
    """Return True if a boolean parameter is set: its first value is neither ``false`` nor ``0`` in any case.

    No value at all means no; an empty value (``?watch`` or ``?watch=``) means yes.
    """
    return bool(values) and values[0].lower() not in {"false", "0"}
