"""What has changed since a mark.

Inventory and ledger note every change; their snapshots carry a mark. Who has kept something up to date asks a later
mark what happened in between, and pays for that alone. The changelog's memory is short: who comes back too late is told
so, and looks at everything.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import msgspec

__all__ = ["Changelog", "Mark"]

E = TypeVar("E", bound=Hashable)


class Mark(msgspec.Struct, Generic[E], frozen=True, eq=False):
    """A moment in a changelog."""

    _changelog: object
    _entries: list[E]
    _first: int
    _end: int

    def since(self, earlier: Mark[E]) -> set[E] | None:
        """What has changed since the moment ``earlier``; None if that cannot be told any more."""
        if earlier._changelog is not self._changelog or not self._first <= earlier._end <= self._end:
            return None
        return set(self._entries[earlier._end - self._first : self._end - self._first])


class Changelog(Generic[E]):
    """Changes in the order in which they happened; the older ones are forgotten."""

    __slots__ = ("_entries", "_first", "last")

    LIMIT: Final = 8192
    """So many changes are remembered at most; at least half of them always are."""

    def __init__(self) -> None:
        self._entries: list[E] = []
        self._first = 0
        self.last: Mark[E] | None = None
        """The mark of this moment, if `mark` has been called since the last change."""

    def note(self, entry: E) -> None:
        """Something about ``entry`` has changed."""
        if len(self._entries) >= self.LIMIT:
            # Marks keep the old list; so it is left alone.
            self._entries = self._entries[self.LIMIT // 2 :]
            self._first += self.LIMIT // 2
        self._entries.append(entry)
        self.last = None

    def mark(self) -> Mark[E]:
        """This moment: the same mark until the next change."""
        if self.last is None:
            self.last = Mark(self, self._entries, self._first, self._first + len(self._entries))
        return self.last
