"""A mapping of which a snapshot is cheap, however large it is.

A scheduler takes a snapshot after every claim, and a copy of a dict of all pools would cost more than the claim itself.
So the entries lie in parts, and a snapshot shares them: a later write copies the one part that it touches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar, overload

__all__ = ["FrozenMap", "SharedMap"]

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
