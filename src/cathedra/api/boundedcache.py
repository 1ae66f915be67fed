"""Caches whose keys come from clients, bounded in entries and in bytes.

A count alone is no bound: a name in a request may have three million characters, and a few hundred of them fill the
memory that a thousand ordinary ones would never need. A text that is longer than any name is therefore worked out each
time, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Final, Generic, TypeVar

from cathedra.remembering import IS_ON, remembered

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T", str, bytes)

LONGEST_KEY: Final = 1024
"""Characters of all texts of a key that is kept: names have 253 at most, label keys 317."""


def is_short(*texts: str | bytes) -> bool:
    """Return True if a key of these texts is short enough to be kept."""
    return sum(map(len, texts)) <= LONGEST_KEY


class BoundedCache(dict[K, V], Generic[K, V]):
    """Results by key. Read it as a dictionary; enter results with `keep` alone."""

    __slots__ = ("_bytes", "_most", "_most_bytes")

    def __init__(self, most: int, *, most_bytes: int | None = None) -> None:
        """``most`` entries are kept. Without ``most_bytes`` a key has `LONGEST_KEY` bytes at most."""
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0

    def keep(self, key: K, value: V, size: int) -> V:
        """Keep a result of ``size`` bytes of key and value, if it is small enough; all others give way when there are
        too many. Return the value."""
        most_bytes = self._most_bytes
        if not IS_ON or size > (LONGEST_KEY if most_bytes is None else most_bytes // 16):
            return value
        if len(self) >= self._most or (most_bytes is not None and self._bytes + size > most_bytes):
            self.clear()
        self[key] = value
        self._bytes += size
        return value

    def clear(self) -> None:
        """Drop all entries, and count their bytes as free."""
        super().clear()
        self._bytes = 0


def cached_texts(entries: int) -> Callable[[Callable[[T], V]], Callable[[T], V]]:
    """Decorate a pure function of one text: the results of the last ``entries`` short texts are kept."""

    def decorate(function: Callable[[T], V]) -> Callable[[T], V]:
        kept = remembered(f"{function.__module__}.{function.__name__}", size=entries)(function)

        @wraps(function)
        def found(text: T) -> V:
            return kept(text) if len(text) <= LONGEST_KEY else function(text)

        return found

    return decorate
