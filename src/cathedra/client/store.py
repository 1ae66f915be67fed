"""The informer's store: objects of one resource by key, and by indexes that readers add.

Reconcilers never list: they look up. An index maps a value (a node's name, an owner's UID) to the objects that have it.
A tally maps such a value to the numbers of objects of each form, for a reader that counts a thousand objects whenever
one of them changes. An event costs the change of the index or tally, not its size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.undecodable import Undecodable

T = TypeVar("T", bound=KubeObject)

_LOG: Final = logging.getLogger(__name__)

Indexer = Callable[[T], Iterable[str]]
"""The values under which an object is found in an index."""

Tallier = Callable[[T], tuple[str, Hashable] | None]
"""The value under which an object is counted, and its form; None if it is not counted."""

Same = Callable[[T, T], bool]
"""Returns True if two states of an object are identical in everything that an indexer reads."""

_Key = tuple[str, str]
"""Namespace and name: a plain pair, since making an `ObjectKey` costs more than looking it up."""

BY_NAMESPACE: Final = "namespace"
"""Name of the index of objects by their namespace."""


def by_namespace(obj: KubeObject) -> tuple[str, ...]:
    """Index function of `BY_NAMESPACE`."""
    return (obj.metadata.namespace,)


class IndexConflict(ValueError):
    """An index or tally of that name exists and is made by another function."""

    def __init__(self, index: str) -> None:
        self.index = index
        super().__init__(f"index {index!r} exists with another function; choose another name")


class _Index(Generic[T]):
    """One index: value → keys of the objects, in the order of their arrival."""

    __slots__ = ("entries", "indexer", "values")

    def __init__(self, indexer: Indexer[T]) -> None:
        self.indexer = indexer
        self.entries: dict[str, _Key | dict[_Key, None]] = {}
        """Most values have one object, as UIDs of owners do. Its key stands for a mapping of 230 bytes, of which a
        cluster of 10,000 nodes would have 350,000.
        """
        self.values: dict[_Key, str | tuple[str, ...]] = {}
        """Values of each object, if it has any; a single value, as most have, without a tuple. They are kept because
        computing the values of the previous state would take half the time of an event.
        """

    def put(self, key: _Key, new: T) -> None:
        """File an object, or replace its values."""
        try:
            values = tuple(self.indexer(new))
        except Exception:
            # One odd object must not end the informer of all others: it is not found under this index.
            _LOG.exception("%s/%s cannot be filed in an index", *key)
            values = ()
        before = self.values.get(key)
        if before is None and not values:
            return
        kept = values[0] if len(values) == 1 else values or None
        # Most events change nothing that an index reads, so the buckets are left alone.
        if before == kept:
            return
        if before is not None:
            for value in _each(before):
                if value not in values:
                    self._drop(key, value)
        if kept is None:
            del self.values[key]
            return
        self.values[key] = kept
        for value in values:
            entry = self.entries.setdefault(value, key)
            if entry is not key:
                self._add(key, value, entry)

    def remove(self, key: _Key) -> None:
        kept = self.values.pop(key, None)
        if kept is not None:
            for value in _each(kept):
                self._drop(key, value)

    def _add(self, key: _Key, value: str, entry: _Key | dict[_Key, None]) -> None:
        """Add an object to the entry of a value, which has others."""
        if isinstance(entry, dict):
            entry[key] = None
        elif entry != key:
            self.entries[value] = {entry: None, key: None}

    def _drop(self, key: _Key, value: str) -> None:
        bucket = self.entries.get(value)
        if not isinstance(bucket, dict):
            if bucket == key:
                del self.entries[value]
            return
        bucket.pop(key, None)
        # Values come from objects, as UIDs do. Empty buckets would accumulate for ever.
        if not bucket:
            del self.entries[value]


def _each(kept: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of an object in an index."""
    return kept if isinstance(kept, tuple) else (kept,)


class _Count:
    """The number of objects with one value and form."""

    __slots__ = ("number", "place")

    def __init__(self, place: tuple[str, Hashable]) -> None:
        self.place = place
        self.number = 0


class _Tally(Generic[T]):
    """One tally: value → form → number of objects."""

    __slots__ = ("counted", "groups", "tallier")

    def __init__(self, tallier: Tallier[T]) -> None:
        self.tallier = tallier
        self.groups: dict[str, dict[Hashable, _Count]] = {}
        self.counted: dict[_Key, _Count] = {}
        """The count that contains each object, if one does."""

    def put(self, key: _Key, new: T) -> None:
        """Count an object, or move it to the count of its present form."""
        try:
            place = self.tallier(new)
        except Exception:
            # As in an index: one odd object must not end the informer of all others.
            _LOG.exception("%s/%s cannot be counted", *key)
            place = None
        before = self.counted.get(key)
        if before is not None:
            if before.place == place:
                return
            self.remove(key)
        if place is not None:
            value, form = place
            group = self.groups.setdefault(value, {})
            count = group.get(form)
            if count is None:
                count = group[form] = _Count(place)
            count.number += 1
            self.counted[key] = count

    def remove(self, key: _Key) -> None:
        count = self.counted.pop(key, None)
        if count is None:
            return
        count.number -= 1
        if not count.number:
            value, form = count.place
            del self.groups[value][form]
            if not self.groups[value]:
                del self.groups[value]


class Store(Generic[T]):
    """Objects by namespace and name, with indexes and tallies. Only its informer writes to it."""

    def __init__(self) -> None:
        self._objects: dict[_Key, T] = {}
        self.by_key: Mapping[_Key, T] = self._objects
        """The objects by namespace ("" for cluster-scoped kinds) and name."""
        self._undecodable: dict[_Key, Undecodable] = {}
        self.undecodable: Mapping[_Key, Undecodable] = self._undecodable
        """Objects that exist and cannot be decoded, by `Undecodable.key`; they are not among the others."""
        self._indexes: dict[str, _Index[T]] = {}
        self._tallies: dict[str, _Tally[T]] = {}
        self._filed: tuple[_Index[T] | _Tally[T], ...] = ()
        """All indexes and tallies."""
        self._moving: tuple[tuple[Same[T] | None, tuple[_Index[T] | _Tally[T], ...]], ...] = ()
        """Those in which an object may move, grouped by the function that tests it, which is then called once."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object of that name, or None; ``namespace`` is "" for cluster-scoped kinds."""
        return self._objects.get((namespace, name))

    def list(self) -> Sequence[T]:
        """Return a snapshot of all objects, in no particular order."""
        return tuple(self._objects.values())

    def by_index(self, index: str, value: str) -> Sequence[T]:
        """Return a snapshot of the objects that ``index`` files under ``value``.

        Raises:
            KeyError: no such index was added.
        """
        found = self._indexes[index].entries.get(value)
        if found is None:
            return ()
        if not isinstance(found, dict):
            return (self._objects[found],)
        # A snapshot, since a reconciler may await between two objects while events change the index.
        return tuple(map(self._objects.__getitem__, found))

    def index_values(self, index: str) -> KeysView[str]:
        """Return a view of the values that have objects in ``index``, which shows later changes."""
        return self._indexes[index].entries.keys()

    def add_index(self, name: str, indexer: Indexer[T], same: Same[T] | None = None) -> None:
        """Index objects (also existing ones) by the values that ``indexer`` returns. If ``same`` returns True for the
        states before and after a change, the object's values stay and ``indexer`` is not called.

        Adding the same index twice changes nothing, so that several readers of a shared informer may add it.

        Raises:
            IndexConflict: the name is used by another function.
        """
        existing = self._indexes.get(name)
        if existing is not None:
            # Two readers of one name with different functions would each get the other's objects.
            if existing.indexer != indexer:
                raise IndexConflict(name)
            return
        index = _Index(indexer)
        for key, obj in self._objects.items():
            index.put(key, obj)
        self._indexes[name] = index
        if indexer is by_namespace:  # the namespace is part of the key
            self._filed = (*self._filed, index)
        else:
            self._file(index, same)

    def add_tally(self, name: str, tallier: Tallier[T]) -> None:
        """Count objects (also existing ones) by the value and the form that ``tallier`` returns.

        Adding the same tally twice changes nothing.

        Raises:
            IndexConflict: the name is used by another function.
        """
        existing = self._tallies.get(name)
        if existing is not None:
            if existing.tallier != tallier:
                raise IndexConflict(name)
            return
        tally = _Tally(tallier)
        for key, obj in self._objects.items():
            tally.put(key, obj)
        self._tallies[name] = tally
        self._file(tally, None)

    def _file(self, index: _Index[T] | _Tally[T], same: Same[T] | None) -> None:
        """Keep an index or tally up to date from now on."""
        self._filed = (*self._filed, index)
        moving = dict(self._moving)
        moving[same] = (*moving.get(same, ()), index)
        self._moving = tuple(moving.items())

    def tally(self, name: str, value: str) -> dict[Any, int]:
        """Return a snapshot of the numbers of objects with ``value``, by their forms.

        Raises:
            KeyError: no such tally was added.
        """
        return {form: count.number for form, count in self._tallies[name].groups.get(value, {}).items()}

    def put(self, obj: T) -> T | None:
        """Enter ``obj`` and answer what was there before."""
        metadata = obj.metadata
        key = (metadata.namespace, metadata.name)
        old = self._objects.get(key)
        self._objects[key] = obj
        if old is None:
            for index in self._filed:
                index.put(key, obj)
            return None
        for same, indexes in self._moving:
            if same is None or not same(old, obj):
                for index in indexes:
                    index.put(key, obj)
        return old

    def put_undecodable(self, what: Undecodable) -> T | None:
        """Add an object that cannot be decoded, and return its last known state, which it replaces."""
        self._undecodable[what.key] = what
        # The last decodable state is outdated. A reader that finds nothing waits; one that finds the old state acts on
        # it.
        return self.remove(what.key)

    def remove_undecodable(self, key: _Key) -> Undecodable | None:
        """Remove an object that could not be decoded: it can be now, or was deleted."""
        return self._undecodable.pop(key, None)

    def remove(self, key: _Key) -> T | None:
        """Remove an object and return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._filed:
                index.remove(key)
        return old
