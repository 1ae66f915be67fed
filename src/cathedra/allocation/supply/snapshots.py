"""Snapshots that are cheap, and the changes between two of them.

Inventory and ledger record every change in a `Changelog`, and their snapshots carry a mark. A reader that keeps a
derived value up to date passes its old mark to the new one and gets the entries between them. A reader of the present
keeps its position in the changelog instead. The changelog is bounded: for an old mark or position it returns None, and
the reader starts afresh.

`SharedMap` is a mapping of which a snapshot is cheap, however large it is. A scheduler takes a snapshot after every
claim, and a copy of a dict of all pools would cost more than the claim itself. Entries lie in parts that snapshots
share; a later write copies the one part that it touches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

E = TypeVar("E", bound=Hashable)


MOST_CHANGES: Final = 8192
"""Largest number of changes that a changelog records; at least half of them are always kept."""


class Mark(msgspec.Struct, Generic[E], frozen=True, eq=False):
    """A moment in a changelog."""

    _changelog: object
    _entries: list[E]
    _first: int
    _end: int

    def since(self, earlier: Mark[E]) -> set[E] | None:
        """Return the entries that have changed since ``earlier``; None if they are no longer recorded."""
        first, end = self._first, earlier._end
        if earlier._changelog is not self._changelog or not first <= end <= self._end:
            return None
        return set(self._entries[end - first : self._end - first])


class Changelog(Generic[E]):
    """Recent changes in order; older ones are dropped."""

    __slots__ = ("_entries", "_first", "_mark", "end")

    def __init__(self) -> None:
        self._entries: list[E] = []
        self._first = 0
        self.end = 0
        """Position of the next change."""
        self._mark: Mark[E] | None = None

    def note(self, entry: E) -> None:
        """Record a change of ``entry``."""
        entries = self._entries
        if len(entries) >= MOST_CHANGES:
            # Marks keep the old list; so it is left alone.
            entries = self._entries = entries[MOST_CHANGES // 2 :]
            self._first += MOST_CHANGES // 2
        entries.append(entry)
        self.end += 1

    def since(self, position: int) -> set[E] | None:
        """Return the entries that have changed from ``position`` on; None if they are no longer recorded."""
        first = self._first
        return set(self._entries[position - first :]) if first <= position else None

    def drop(self) -> None:
        """Drop all entries: what has changed until now is not known."""
        self.end += 1
        self._entries, self._first = [], self.end

    def mark(self) -> Mark[E]:
        """Return the mark of this moment, for readers on other threads: the same mark until the next change."""
        mark = self._mark
        if mark is None or mark._end != self.end:
            mark = self._mark = Mark(self, self._entries, self._first, self.end)
        return mark


# --- maps with snapshots


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")

_PARTS: Final = 64
_MASK: Final = _PARTS - 1
_NOTHING: Final[dict[Any, Any]] = {}


class FrozenMap(Mapping[K, V]):
    """The content of a `SharedMap` at one moment. Entries have no particular order."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[dict[K, V]]) -> None:
        self._parts = parts

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if there is none."""
        return self._parts[hash(key) & _MASK].get(key, default)

    def __getitem__(self, key: K) -> V:
        return self._parts[hash(key) & _MASK][key]

    def __contains__(self, key: object) -> bool:
        return key in self._parts[hash(key) & _MASK]

    def __iter__(self) -> Iterator[K]:
        for part in self._parts:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self._parts))


class SharedMap(Generic[K, V]):
    """Mutable mapping with cheap snapshots.

    Reading and writing cost what a dict's do, except the first write into a part after a snapshot: that copies a 64th
    of all entries. A snapshot costs 64 references.
    """

    __slots__ = ("_own", "_parts")

    def __init__(self) -> None:
        self._parts: list[dict[K, V]] = [_NOTHING] * _PARTS
        self._own = bytearray(_PARTS)

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, or None if there is none."""
        return self._parts[hash(key) & _MASK].get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self._part(hash(key) & _MASK)[key] = value

    def pop(self, key: K, default: D) -> V | D:
        """Drop ``key`` and return its value; ``default`` if there is none."""
        at = hash(key) & _MASK
        return self._part(at).pop(key) if key in self._parts[at] else default

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def snapshot(self) -> FrozenMap[K, V]:
        """Return an immutable snapshot; later changes do not affect it."""
        self._own = bytearray(_PARTS)
        return FrozenMap(self._parts.copy())

    def copy(self) -> SharedMap[K, V]:
        """Another map with the same entries; neither sees the other's changes."""
        other: SharedMap[K, V] = SharedMap()
        other._parts = self._parts.copy()
        self._own = bytearray(_PARTS)
        return other

    def _part(self, at: int) -> dict[K, V]:
        if not self._own[at]:
            self._own[at] = 1
            self._parts[at] = dict(self._parts[at])
        return self._parts[at]
