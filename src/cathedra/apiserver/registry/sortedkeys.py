"""The keys of a table in their order, which is that of lists.

Most tables are written far more often than they are listed, and of events hardly any list is ever asked for. To put a
key in its place moves half of all keys (5 µs of a write among 20,000), so new ones wait until the order is read.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Final

__all__ = ["SortedKeys"]

_FEW: Final = 64
"""Keys that are put in their places one by one; from about so many on sorting all anew is faster, among 5,000 keys as
among 50,000."""


class SortedKeys:
    """Keys of which none is there twice."""

    __slots__ = ("_added", "_sorted", "add")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._sorted = sorted(keys)
        self._added: list[str] = []
        self.add = self._added.append
        """Take in a key that is not there."""

    def remove(self, key: str) -> None:
        """Let go of a key that is there."""
        keys = self.in_order()
        del keys[bisect.bisect_left(keys, key)]

    def in_order(self) -> list[str]:
        """All keys, to be read before the next change."""
        if self._added:
            self._put_in_place()
        return self._sorted

    def _put_in_place(self) -> None:
        if len(self._added) < _FEW:
            for key in self._added:
                bisect.insort(self._sorted, key)
        else:
            self._sorted += self._added
            self._sorted.sort()
        self._added.clear()
