"""Caches that live as long as the object that they are derived from: an inventory, a device signature, a list of
selectors.

Only the layers above know what is derived. Each of them declares a `CacheSlot`, which makes an empty cache, and the
object keeps one value per slot.

    VALUES: Final[CacheSlot[dict[str, Value]]] = CacheSlot("attribute values", dict)
    values = signature.caches.of(VALUES)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class CacheSlot(Generic[T]):
    """A slot for one kind of cache: its ``name``, and the function that makes an empty one."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self.name, self.make = name, make

    def __repr__(self) -> str:
        return f"CacheSlot({self.name!r})"


class Caches:
    """The caches of one object, by slot."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[CacheSlot[Any], Any] = {}

    def of(self, slot: CacheSlot[T]) -> T:
        """Return the cache in ``slot``; it is made on first access."""
        held = self._held.get(slot)
        if held is None:
            held = self._held[slot] = slot.make()
        return held

    def forget(self, slot: CacheSlot[Any]) -> None:
        """Drop the cache in ``slot``."""
        self._held.pop(slot, None)


class LRUCache(Generic[K, T]):
    """Least-recently-used cache, for the few values that are needed again and again and are too large to keep for all
    keys."""

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit: int) -> None:
        self._kept: dict[K, T] = {}
        self._limit = limit

    def get(self, key: K, make: Callable[[], T]) -> T:
        """Return the cached value of ``key``, or make it; the least recently used value is dropped if the cache is
        full."""
        found = self._kept.pop(key, None)
        if found is None:
            found = make()
            if len(self._kept) >= self._limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = found
        return found
