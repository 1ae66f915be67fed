"""Values of literal tokens: numbers in their ranges, strings and bytes without their escapes."""

from __future__ import annotations

import math
import re
from typing import Final

from cathedra.cel.values import MAX_INT, MAX_UINT, MIN_INT, UInt


class LiteralError(ValueError):
    """The token has the form of a literal, but no value; the wording is that of the report."""


_SIMPLE: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11} | {c: ord(c) for c in "\\'\"`?"}
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


def parse_int(text: str) -> int:
    """Return a signed 64-bit integer, decimal or hexadecimal."""
    value = int(text, 16) if "0x" in text else _decimal(text)
    if not MIN_INT <= value <= MAX_INT:
        raise LiteralError("invalid int literal")
    return value


def parse_uint(text: str) -> UInt:
    """Return an unsigned 64-bit integer; ``text`` includes its final u."""
    value = int(text[:-1], 16) if text.startswith("0x") else _decimal(text[:-1])
    if value > MAX_UINT:
        raise LiteralError("invalid uint literal")
    return UInt(value)


def _decimal(text: str) -> int:
    digits = text.lstrip("-").lstrip("0")
    if len(digits) > 20:  # out of every range; sparing Python's limit on long digit strings
        return 1 << 70
    value = int(digits or "0")
    return -value if text.startswith("-") else value


def parse_double(text: str) -> float:
    """Return a 64-bit floating-point number; one that is too large is refused."""
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return value


def parse_string(text: str) -> str:
    """Return the value of a string token."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_rune, body)


def _rune(match: re.Match[str]) -> str:
    simple, byte, short, long, octal = match.groups()
    code = short or long
    if simple:
        return chr(_SIMPLE[simple])
    value = int(byte or code, 16) if byte or code else int(octal, 8)
    if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(value)


def parse_bytes(text: str) -> bytes:
    """Return the value of a bytes token; escapes name bytes, everything else is UTF-8."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    out, last = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        simple, byte, short, long, octal = match.groups()
        code = short or long
        if code:
            raise LiteralError("unable to unescape string")
        out += body[last : match.start()].encode("utf-8", "surrogatepass")
        out.append(_SIMPLE[simple] if simple else int(byte, 16) if byte else int(octal, 8))
        last = match.end()
    out += body[last:].encode("utf-8", "surrogatepass")
    return bytes(out)


def _body(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width], raw
