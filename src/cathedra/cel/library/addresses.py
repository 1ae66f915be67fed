"""Reads IP addresses as Go's netip reads them, and words its refusals (docs/spec/cel.md §6.5).

Python's ``ipaddress`` accepts nearly the same texts, but says nothing that a user could compare with Kubernetes.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from cathedra.api.goquote import go_quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

__all__ = ["NotAnAddress", "parse"]

_DIGITS: Final = "0123456789"
_HEX: Final = "0123456789abcdefABCDEF"
_GROUPS: Final = 16
"""Bytes of an IPv6 address."""


class NotAnAddress(ValueError):
    """The text is no address; the message is Go's."""

    def __init__(self, text: str, message: str, at: str = "") -> None:
        place = f" (at {go_quote(at)})" if at else ""
        super().__init__(f"ParseAddr({go_quote(text)}): {message}{place}")


def parse(text: str) -> tuple[Address, str]:
    """The address and its zone, empty if there is none.

    Raises:
        NotAnAddress: the text is none.
    """
    for char in text:
        if char == ".":
            return ipaddress.IPv4Address(_four_fields(text, text)), ""
        if char == ":":
            packed, zone = _six(text)
            return ipaddress.IPv6Address(packed), zone
        if char == "%":
            raise NotAnAddress(text, "missing IPv6 address")
    raise NotAnAddress(text, "unable to parse IP")


def _four_fields(whole: str, text: str) -> bytes:
    fields: list[int] = []
    value = digits = 0
    for position, char in enumerate(text):
        if char in _DIGITS:
            if digits == 1 and value == 0:
                raise NotAnAddress(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise NotAnAddress(whole, "IPv4 field has value >255")
        elif char == ".":
            if position in (0, len(text) - 1) or text[position - 1] == ".":
                raise NotAnAddress(whole, "IPv4 field must have at least one digit", text[position:])
            if len(fields) == 3:
                raise NotAnAddress(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise NotAnAddress(whole, "unexpected character", text[position:])
    if len(fields) < 3:
        raise NotAnAddress(whole, "IPv4 address too short")
    return bytes((*fields, value))


def _six(whole: str) -> tuple[bytes, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise NotAnAddress(whole, "zone must be a non-empty string")
    packed = b""
    gap = -1
    if text.startswith("::"):
        gap, text = 0, text[2:]
        if not text:
            return bytes(_GROUPS), zone
    while len(packed) < _GROUPS:
        length = _hex_length(whole, text)
        if text[length : length + 1] == ".":
            packed += _embedded(whole, text, len(packed), has_gap=gap >= 0)
            text = ""
            break
        packed += int(text[:length], 16).to_bytes(2, "big")
        text = text[length:]
        if not text:
            break
        if text[0] != ":":
            raise NotAnAddress(whole, "unexpected character, want colon", text)
        if len(text) == 1:
            raise NotAnAddress(whole, "colon must be followed by more characters", text)
        text = text[1:]
        if text[0] == ":":
            if gap >= 0:
                raise NotAnAddress(whole, "multiple :: in address", text)
            gap, text = len(packed), text[1:]
            if not text:
                break
    if text:
        raise NotAnAddress(whole, "trailing garbage after address", text)
    return _filled(whole, packed, gap), zone


def _hex_length(whole: str, text: str) -> int:
    length = 0
    while length < len(text) and text[length] in _HEX:
        length += 1
        if length > 4:
            raise NotAnAddress(whole, "each group must have 4 or less digits", text)
    if not length:
        raise NotAnAddress(whole, "each colon-separated field must have at least one digit", text)
    return length


def _embedded(whole: str, text: str, done: int, *, has_gap: bool) -> bytes:
    if not has_gap and done != _GROUPS - 4:
        raise NotAnAddress(whole, "embedded IPv4 address must replace the final 2 fields of the address", text)
    if done + 4 > _GROUPS:
        raise NotAnAddress(whole, "too many hex fields to fit an embedded IPv4 at the end of the address", text)
    return _four_fields(whole, text)


def _filled(whole: str, packed: bytes, gap: int) -> bytes:
    if len(packed) < _GROUPS:
        if gap < 0:
            raise NotAnAddress(whole, "address string too short")
        return packed[:gap] + bytes(_GROUPS - len(packed)) + packed[gap:]
    if gap >= 0:
        raise NotAnAddress(whole, "the :: must expand to at least one field of zeros")
    return packed
