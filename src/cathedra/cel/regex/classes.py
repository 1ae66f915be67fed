"""Sets of characters in regular expressions: ranges, Perl's and POSIX' classes, Unicode's categories and scripts.

A set is a tuple of code points in ascending order at which membership changes: ``(0x61, 0x7B)`` is a to z. Membership
is the parity of a bisection, and a complement adds or drops a zero at the front. The tables of Unicode are those of RE2
(``tools/regex_tables.py``): Python's own Unicode version differs between its releases, and has no scripts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Final

CharacterSet = tuple[int, ...]
"""Code points at which membership changes, in ascending order."""

_END: Final = 0x110000
ANY: Final[CharacterSet] = (0, _END)
NEWLINE: Final[CharacterSet] = (0x0A, 0x0B)


def single(low: int, high: int | None = None) -> CharacterSet:
    """Return the set of one character, or of a range with both ends."""
    return (low, (low if high is None else high) + 1)


def contains(characters: CharacterSet, point: int) -> bool:
    """Return True if the code point is in the set."""
    return bisect_right(characters, point) % 2 == 1


def union(sets: Iterable[CharacterSet]) -> CharacterSet:
    """Return the set of everything in any of the sets."""
    merged: list[int] = []
    for low, high in sorted(each for characters in sets for each in _ranges(characters)):
        if merged and low <= merged[-1]:
            merged[-1] = max(merged[-1], high)
        else:
            merged += (low, high)
    return tuple(merged)


def except_for(characters: CharacterSet) -> CharacterSet:
    """Return the complement of the set."""
    start = characters[1:] if characters[:1] == (0,) else (0, *characters)
    return start[:-1] if start[-1:] == (_END,) else (*start, _END)


def folded(characters: CharacterSet) -> CharacterSet:
    """Return the set with all characters that equal one of its own without regard to case."""
    if characters == ANY:
        return characters
    more = [single(other) for orbit in _orbits() if any(contains(characters, c) for c in orbit) for other in orbit]
    return union((characters, *more)) if more else characters


def named(name: str) -> CharacterSet | None:
    """Return the category or script of Unicode; None if there is none of that name."""
    return ANY if name == "Any" else _tables().get(name)


def _ranges(characters: CharacterSet) -> Iterator[tuple[int, int]]:
    return zip(characters[::2], characters[1::2], strict=True)


def _of(text: str) -> CharacterSet:
    """Return the set of ASCII ranges: each pair of characters is one."""
    return union(single(ord(low), ord(high)) for low, high in zip(text[::2], text[1::2], strict=True))


PERL: Final[dict[str, CharacterSet]] = {"d": _of("09"), "s": _of("\t\n\f\r  "), "w": _of("09AZ__az")}
POSIX: Final[dict[str, CharacterSet]] = {
    "alnum": _of("09AZaz"),
    "alpha": _of("AZaz"),
    "ascii": _of("\0\x7f"),
    "blank": _of("\t\t  "),
    "cntrl": _of("\0\x1f\x7f\x7f"),
    "digit": _of("09"),
    "graph": _of("!~"),
    "lower": _of("az"),
    "print": _of(" ~"),
    "punct": _of("!/:@[`{~"),
    "space": _of("\t\r  "),
    "upper": _of("AZ"),
    "word": PERL["w"],
    "xdigit": _of("09AFaf"),
}


@cache
def _lines() -> tuple[list[str], ...]:
    text = (resources.files(__package__) / "unicode.txt").read_text(encoding="ascii")
    return tuple(line.split() for line in text.splitlines())


@cache
def _tables() -> dict[str, CharacterSet]:
    return {name: _read(ranges) for name, *ranges in _lines() if name != "fold"}


@cache
def _orbits() -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(each, 16) for each in points) for name, *points in _lines() if name == "fold")


def _read(ranges: Iterable[str]) -> CharacterSet:
    ends = (each.partition("-") for each in ranges)
    return union(single(int(low, 16), int(high or low, 16)) for low, _, high in ends)
