"""What has changed since a mark.

Inventory and ledger note every change; their snapshots carry a mark. Who has kept something up to date asks a later
mark what happened in between, and pays for that alone. The changelog's memory is short: who comes back too late is told
so, and looks at everything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

__all__ = ["Changelog", "FrozenMap", "Mark", "SharedMap"]

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


# --- maps with snapshots


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")

_PARTS: Final = 256
_MASK: Final = _PARTS - 1
_NOTHING: Final[dict[Any, Any]] = {}


class FrozenMap(Mapping[K, V]):
    """What a `SharedMap` held at one moment. Entries come in no particular order."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[dict[K, V]]) -> None:
        self._parts = parts

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
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
    """Entries that change one by one, and snapshots of them.

    Reading and writing cost what a dict's do, apart from the first write into a part after a snapshot: that copies a
    256th of all entries. A snapshot costs 256 references.
    """

    __slots__ = ("_own", "_parts")

    def __init__(self) -> None:
        self._parts: list[dict[K, V]] = [_NOTHING] * _PARTS
        self._own = bytearray(_PARTS)

    def get(self, key: K) -> V | None:
        """The value of ``key``, or None."""
        return self._parts[hash(key) & _MASK].get(key)

    def set(self, key: K, value: V) -> None:
        """Enter ``value``, instead of what was there."""
        self._part(hash(key) & _MASK)[key] = value

    def discard(self, key: K) -> None:
        """Drop ``key``, if it is there."""
        at = hash(key) & _MASK
        if key in self._parts[at]:
            del self._part(at)[key]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def snapshot(self) -> FrozenMap[K, V]:
        """What is here now; later changes do not show in it."""
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
