"""Text in quotes as Go prints it: ``strconv.Quote``, which is also ``%q``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ESCAPES: Final[Mapping[str, str]] = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
"""Characters that Go writes with a letter of their own."""


def go_quote(text: str) -> str:
    """Return ``text`` in double quotes; unprintable characters are escaped, and half of a surrogate pair is shown as
    U+FFFD."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if letter in ESCAPES:
        return ESCAPES[letter]
    if letter.isprintable():
        return letter
    number = ord(letter)
    if number < 0x20 or number == 0x7F:
        return f"\\x{number:02x}"
    if 0xD800 <= number < 0xE000:
        return "\\ufffd"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
