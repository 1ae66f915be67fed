"""Caches that live as long as what they are derived from: an inventory, a device signature, a list of selectors.

What is derived is known only to the layers above, so each of them declares a `CacheSlot` for its own: what it holds,
and how an empty one is made. The holder keeps one value per slot.

    VALUES: Final[CacheSlot[dict[str, Value]]] = CacheSlot("attribute values", dict)
    values = signature.caches.of(VALUES)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

__all__ = ["CacheSlot", "Caches", "Recent"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class CacheSlot(Generic[T]):
    """A place for one kind of cache; ``name`` says which, ``make`` makes an empty one."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self.name, self.make = name, make

    def __repr__(self) -> str:
        return f"CacheSlot({self.name!r})"


class Caches:
    """What is held per slot."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[CacheSlot[Any], Any] = {}

    def of(self, slot: CacheSlot[T]) -> T:
        """The cache in ``slot``, made when it is first asked for."""
        held = self._held.get(slot)
        if held is None:
            held = self._held[slot] = slot.make()
        return held

    def forget(self, slot: CacheSlot[Any]) -> None:
        """Empty ``slot``."""
        self._held.pop(slot, None)


class Recent(Generic[K, T]):
    """What was made lately, by key: the few things that are asked for again and again, and are too large to keep for
    all."""

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit: int) -> None:
        self._kept: dict[K, T] = {}
        self._limit = limit

    def get(self, key: K, make: Callable[[], T]) -> T:
        """What is kept for ``key``, or was made now; the least recently asked for gives way."""
        found = self._kept.pop(key, None)
        if found is None:
            found = make()
            if len(self._kept) >= self._limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = found
        return found
