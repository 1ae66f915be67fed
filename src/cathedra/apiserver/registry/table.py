"""Objects of one resource in storage order, with a bounded history of changes and the watchers.

The history serves watches and lists from a past revision. Below its floor a client gets 410 Expired and lists again
(docs/spec/apimachinery.md §8 and §9).
"""

from __future__ import annotations

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import length_hint
from typing import Final, cast

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.apiserver.registry.selection import Selection, getter
from cathedra.apiserver.registry.storedobject import EncodedForms, StoredObject, split_key
from cathedra.apiserver.registry.watching import StoredChange, Watcher, Watchers
from cathedra.kinds.definition import AnyDefinition

HISTORY_LIMIT: Final = 10_000
"""Changes kept per resource."""
HISTORY_BYTES: Final = 32 * 1024 * 1024
"""Bytes of JSON of their objects. They use about twice that in memory: decoded objects are kept, too."""
HISTORY_LEAST: Final = 16
"""Changes that are kept regardless of their size."""
_FEW_CHANGES: Final = 32
"""Changes up to which a watch that resumes tests each of them."""
_FEW_KEYS: Final = 64
"""From about this many new keys on, sorting all keys is faster than inserting them, among 5,000 as among 50,000."""


UnderWay = dict[str, tuple[asyncio.Future[None], ...]]
"""By key with a write under way: the futures of those that wait for its end."""


class TooOld(LookupError):
    """The revision lies before the history's floor."""


class Table:
    """The objects of one resource."""

    def __init__(
        self,
        definition: AnyDefinition,
        floor: int = 0,
        *,
        history_limit: int = HISTORY_LIMIT,
        stored_under: str = "",
        encoded: EncodedForms | None = None,
    ) -> None:
        """``encoded``: what bounds the forms that readers encode; without it, these are kept with their objects."""
        self.definition = definition
        self.stored_under = stored_under
        """Prefix of the keys in the store."""
        self.under_way: UnderWay = {}
        """This is the lock of an object: no request begins a write on a key that is here, so each is compared with a
        settled state."""
        self.check: Callable[[str, StoredObject | None, KubeObject], Collection[str]] | None = None
        """Compares an object that is to be written with others of the table, which no lock of a single object covers.
        It is called in the same turn in which the write is put into the log, and raises the refusal. It returns the
        fences of the write: keys in the store that another server writes with each object that would have to be
        compared too (`FencedStorage`)."""
        self._encoded = encoded
        self._entries: dict[str, StoredObject] = {}
        self.get = self._entries.get
        """Return the object of a key; None if there is none. The bound method of the dictionary, since a write calls it
        some ten times; `load` replaces it with the dictionary."""
        self._keys = SortedKeys()
        self._history: deque[StoredChange] = deque()
        self.history_limit = history_limit
        """The number of changes from which watches can start."""
        self._floor = floor
        self._history_bytes = 0
        self._dropped_bytes = 0
        """Bytes of changes that were dropped for their size since watchers were last checked."""
        self._watchers = Watchers()
        """Those without a namespace, label or field by which a change finds them."""
        self._by_namespace: dict[str, Watchers] = {}
        self._by_field: dict[str, dict[str, Watchers]] = {}
        self._by_label: dict[tuple[str, str], Watchers] = {}
        self._indexes: dict[str, FieldIndex] = {}
        """Of the definition's indexed fields, as far as lists have needed them: an index decodes every object, which
        a server without node agents need not do."""
        self._past: dict[str, HistoryIndex] = {}
        """Of the history, by the fields of watches that resumed."""
        self._observers: list[Callable[[StoredChange], None]] = []
        self.created = self.changed = self.deleted = 0
        """Numbers of settled writes, for metrics."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def floor(self) -> int:
        """The oldest revision from which a watch can start."""
        return self._floor

    @property
    def latest(self) -> int:
        """The revision of the last change."""
        return self._history[-1].revision if self._history else self._floor

    def entries(self) -> Iterator[StoredObject]:
        """Return an iterator over all objects, in no particular order."""
        return iter(self._entries.values())

    def select(self, selection: Selection, start: str = "") -> Iterable[StoredObject]:
        """Return the matching objects in storage order, from key ``start`` on."""
        keys = self._indexed_keys(selection)
        in_order = self._keys.in_order if keys is None else lambda: keys
        return self._walk(self._entries.get, in_order, selection, start)

    def select_at(self, revision: int, selection: Selection, start: str = "") -> Iterable[StoredObject]:
        """Return the matching objects as they were at ``revision``.

        Raises:
            TooOld: the history does not reach back so far.
        """
        if revision < self._floor:
            raise TooOld(revision)
        undone: dict[str, StoredObject | None] = {}
        # Backwards, so that the oldest change after the revision wins: its «previous» is the state at the revision.
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            undone[change.entry.key] = change.previous
        if not undone:
            return self.select(selection, start)
        # A page of a list among 100,000 objects must not copy and sort all of them because some have changed since the
        # first page. So the present order of keys is read, without keys that were created later and with those that
        # were removed.
        present = self._entries
        created = {key for key, past in undone.items() if past is None and key in present}
        removed = sorted(key for key, past in undone.items() if past is not None and key not in present)

        def in_order() -> list[str]:
            keys = self._keys.in_order()
            if not created and not removed:
                return keys
            keys = [key for key in keys if key not in created] if created else keys.copy()
            for key in removed:
                bisect.insort(keys, key)
            return keys

        def get(key: str) -> StoredObject | None:
            return undone[key] if key in undone else present.get(key)

        return self._walk(get, in_order, selection, start)

    def apply(self, change: StoredChange) -> None:
        """Enter a settled write, then call observers, then offer it to watchers: indexes of the server must hold a
        change before any client can react to it."""
        entry, previous = change.entry, change.previous
        key = entry.key
        if self._indexes:
            for index in self._indexes.values():
                index.apply(change)
        if change.deleted:
            del self._entries[key]
            self._keys.remove(key)
            self.deleted += 1
        else:
            if previous is None:
                self._keys.add(key)
                self.created += 1
            else:
                self.changed += 1
            entry.encoded = self._encoded
            self._entries[key] = entry
        history = self._history
        history.append(change)
        # The last state of a removed object has no encoded form; the one before has about its size.
        change.size = size = entry.size or (0 if previous is None else previous.size)
        self._history_bytes = size = self._history_bytes + size
        # Two bounds: many small objects would keep decoded structs, few large ones megabytes of JSON.
        while len(history) > self.history_limit or (size > HISTORY_BYTES and len(history) > HISTORY_LEAST):
            dropped = self._drop()
            size -= dropped
            self._dropped_bytes += dropped
            # Checking every watcher for each dropped change would make a write cost time for each watcher.
            if self._dropped_bytes > HISTORY_BYTES // 4:
                self._end_watchers_behind()
        # Indexes before watchers: a client that reacts to the event must find the server's indexes up to date.
        for observer in self._observers:
            observer(change)
        if self._watchers.alike:
            change.broadcast(self._watchers)
        if self._by_namespace and (here := self._by_namespace.get(split_key(key)[0])) is not None:
            change.broadcast(here)
        if self._by_field:
            self._broadcast_by_field(change)
        if self._by_label:
            self._broadcast_by_label(change)

    def end(self, key: str) -> None:
        """Note the end of a write, successful or not, and wake requests that wait for it."""
        if waiting := self.under_way.pop(key, None):
            wake(waiting)

    def observe(self, observer: Callable[[StoredChange], None]) -> None:
        """Call ``observer`` with every settled write before watchers see it; for the server's own indexes."""
        self._observers.append(observer)

    def restart(self, entries: dict[str, StoredObject], revision: int) -> None:
        """Replace the whole state. Observers are called with every difference; watches end, since the changes in
        between are unknown."""
        for key, entry in self._entries.items():
            if key not in entries:
                self._observed(StoredChange(revision, entry.at(revision), entry, deleted=True))
        for key, entry in entries.items():
            previous = self._entries.get(key)
            # Equal revisions mean an equal object: revisions are unique in the store.
            if previous is None or previous.revision != entry.revision:
                self._observed(StoredChange(entry.revision, entry, previous))
        self._forget_history()
        self._floor = revision
        self.load(entries)
        self.close_watchers()

    def remember(self, history: Iterable[StoredChange], floor: int) -> None:
        """Set the history of what was just loaded: every change after the revision ``floor``."""
        self._history.extend(history)
        self._floor = floor

    def forget(self, revision: int) -> None:
        """Drop the history up to a revision, which becomes the floor."""
        self.trim(revision)
        # Never lowered, or a watch could start where changes are missing.
        self._floor = max(self._floor, revision)

    def trim(self, revision: int) -> None:
        """Drop the history up to a revision, and the encoded forms of its objects. The floor becomes the last change
        that was dropped, so watches that start behind it continue."""
        while self._history and self._history[0].revision <= revision:
            self._drop()

    def _end_watchers_behind(self) -> None:
        """End the watchers whose queues still hold changes that were dropped: a client that reads nothing would
        otherwise keep them in memory."""
        self._dropped_bytes = 0
        for bucket in self._buckets():
            for watcher in tuple(bucket):
                watcher.end_if_behind(self._floor)

    def _drop(self) -> int:
        """Drop the oldest change, whose revision becomes the floor, and return its bytes."""
        change = self._history.popleft()
        size = change.size
        self._history_bytes -= size
        self._floor = change.revision
        if self._past:
            for index in self._past.values():
                index.drop(change)
        # The encoded forms are most of what a dropped change would keep in memory. Without this, 100,000 pods that are
        # written within minutes would keep their JSON for good.
        change.entry.forget_forms()
        return size

    def _forget_history(self) -> None:
        self._history.clear()
        self._past.clear()
        self._history_bytes = 0

    def load(self, entries: dict[str, StoredObject]) -> None:
        """Set the objects, without events."""
        for entry in entries.values():
            entry.encoded = self._encoded
        self._entries = entries
        self.get = entries.get
        self._keys = SortedKeys(entries)
        self._indexes.clear()

    def redefine(self, definition: AnyDefinition, entries: dict[str, StoredObject], floor: int) -> None:
        """Replace the definition and the objects. The history begins at ``floor``; watches end."""
        self.definition = definition
        self.load(entries)
        self._forget_history()
        self._floor = floor
        self.close_watchers()

    def watch(self, selection: Selection, after: int) -> Watcher:
        """Return a watcher of the changes after revision ``after``.

        Raises:
            TooOld: the history does not reach back so far.
        """
        if after < self._floor:
            raise TooOld(after)
        return self._watch(selection, after, bisect.bisect_right(self._history, after, key=_revision))

    def resume(self, selection: Selection, after: int) -> Watcher:
        """Return a watcher for a client that has seen a change, or a list, of revision ``after``.

        Writes to a shared store can have one revision. A client whose connection broke between their events has seen
        only some of them, so all are sent again. Like events of a new list, they show it states that it may know.

        Raises:
            TooOld: the history does not reach back so far.
        """
        history = self._history
        first = bisect.bisect_left(history, after, key=_revision)
        end = bisect.bisect_right(history, after, key=_revision)
        # The history was cut between changes of one revision.
        if after < self._floor or (first < end and after == self._floor):
            raise TooOld(after)
        if end - first > 1:
            return self._watch(selection, after - 1, first)
        return self._watch(selection, after, end)

    def _watch(self, selection: Selection, after: int, start: int) -> Watcher:
        """Return a watcher that is offered the history from a position on."""
        watcher = Watcher(selection, after)
        # History first, then registration, in one turn of the loop: no change can fall between the two.
        for change in self._since(selection, after, start):
            watcher.offer(change)
        self._bucket(selection).add(watcher)
        return watcher

    def _since(self, selection: Selection, after: int, start: int) -> Iterable[StoredChange]:
        """Return the changes after a revision, which are those from a position on, that a selection may show."""
        history = self._history
        # A history has up to 10,000 changes, and every watch that resumes needs only its end.
        if len(history) - start <= _FEW_CHANGES or (term := self._indexed_term(selection)) is None:
            return [history[position] for position in range(start, len(history))]
        field, value = term
        if field not in self._past:
            self._past[field] = HistoryIndex(self.definition, field)
        return [change for change in self._past[field].changes(history, value) if change.revision > after]

    def unwatch(self, watcher: Watcher) -> None:
        """Deliver nothing more to a watcher."""
        selection = watcher.selection
        bucket = self._bucket(selection)
        bucket.discard(watcher)
        # Empty buckets are removed: node agents come and go, and a bucket per former node would stay for ever.
        if bucket or bucket is self._watchers:
            return
        if (indexed := self._indexed_term(selection)) is not None:
            values = self._by_field[indexed[0]]
            del values[indexed[1]]
            if not values:
                del self._by_field[indexed[0]]
        elif selection.label is not None:
            del self._by_label[selection.label]
        else:
            del self._by_namespace[selection.namespace]

    def close_watchers(self) -> None:
        """End the streams of all watchers of this table."""
        for bucket in self._buckets():
            for watcher in tuple(bucket):
                watcher.close()

    def _buckets(self) -> list[Watchers]:
        by_field = [bucket for values in self._by_field.values() for bucket in values.values()]
        return [self._watchers, *self._by_namespace.values(), *by_field, *self._by_label.values()]

    def _observed(self, change: StoredChange) -> None:
        for observer in self._observers:
            observer(change)

    def _bucket(self, selection: Selection) -> Watchers:
        """Return the watchers that a change of a matching object reaches. They are found by field, label or namespace,
        so a write costs nothing for watchers of other objects."""
        indexed = self._indexed_term(selection)
        if indexed is None:
            if selection.label is not None:
                return self._by_label.setdefault(selection.label, Watchers())
            if selection.namespace:
                return self._by_namespace.setdefault(selection.namespace, Watchers())
            return self._watchers
        return self._by_field.setdefault(indexed[0], {}).setdefault(indexed[1], Watchers())

    def _indexed_term(self, selection: Selection) -> tuple[str, str] | None:
        """Return the field and value by which a watcher is found: thousands of node agents watch the pods of their own
        node."""
        terms = [term for term in selection.terms if not term.negated]
        # A driver on each node watches slices of its driver and its node. All of them have the first in common, so
        # each write would be compared with every watcher.
        for term in terms:
            if term.field in self.definition.indexed_fields:
                return term.field, term.value
        return (terms[0].field, terms[0].value) if terms else None

    def _broadcast_by_field(self, change: StoredChange) -> None:
        for field, values in self._by_field.items():
            get = getter(self.definition, field)
            # Both values: watchers of the old one see the object leave their selection.
            touched = {get(change.entry.object)}
            if change.previous is not None:
                touched.add(get(change.previous.object))
            for value in touched:
                if value in values:
                    change.broadcast(values[value])

    def _broadcast_by_label(self, change: StoredChange) -> None:
        touched = dict.fromkeys(change.entry.object.metadata.labels.items())
        if change.previous is not None:
            touched |= dict.fromkeys(change.previous.object.metadata.labels.items())
        for label in touched:
            if (bucket := self._by_label.get(label)) is not None:
                change.broadcast(bucket)

    def _indexed_keys(self, selection: Selection) -> list[str] | None:
        """Return the keys of the objects that may match, in order; None if no index finds them."""
        for term in selection.terms:
            if term.field in self.definition.indexed_fields and not term.negated:
                index = self._indexes.get(term.field)
                if index is None:
                    index = self._indexes[term.field] = FieldIndex(self.definition, term.field, self._entries)
                return sorted(index.keys(term.value))
        return None

    def _walk(
        self,
        get: Callable[[str], StoredObject | None],
        in_order: Callable[[], list[str]],
        selection: Selection,
        start: str,
    ) -> Iterable[StoredObject]:
        name, namespace = selection.name, selection.namespace
        if name and (namespace or not self.definition.namespaced):
            key = f"{namespace}/{name}" if namespace else name
            entry = get(key)
            return () if entry is None or key < start or not _matches(selection, entry) else (entry,)
        keys = in_order()
        low, high = 0, len(keys)
        if namespace:
            # «0» follows «/» in ASCII, so this is the end of the namespace's keys.
            low, high = bisect.bisect_left(keys, f"{namespace}/"), bisect.bisect_left(keys, f"{namespace}0")
        if start:
            low = max(low, bisect.bisect_left(keys, start))
        found, matches = InOrder(get, keys[low:high]), selection.matches
        if matches is None:
            return found
        return (entry for entry in found if matches(entry.object))


class InOrder:
    """Objects in storage order, read once, each when it is reached."""

    __slots__ = ("_get", "_keys")

    def __init__(self, get: Callable[[str], StoredObject | None], keys: list[str]) -> None:
        self._get = get
        self._keys = iter(keys)

    def __iter__(self) -> Iterator[StoredObject]:
        return cast("Iterator[StoredObject]", map(self._get, self._keys))  # each of the keys is there

    def __length_hint__(self) -> int:
        """Return the number of objects that are not read yet, without reading them: a page of a list states it, and a
        list of 100,000 pods has 200 pages."""
        return length_hint(self._keys)


class FieldIndex:
    """The keys of objects by the value of a field.

    Agents of 10,000 nodes list the pods of their own node when they start. Without the index each list tests all pods.
    """

    __slots__ = ("_get", "_keys")

    def __init__(self, definition: AnyDefinition, field: str, entries: Mapping[str, StoredObject]) -> None:
        self._get = getter(definition, field)
        self._keys: dict[str, set[str]] = {}
        for key, entry in entries.items():
            self._add(self._get(entry.object), key)

    def apply(self, change: StoredChange) -> None:
        """Apply a committed change to the index of keys."""
        key, get = change.entry.key, self._get
        now = None if change.deleted else get(change.entry.object)
        before = None if change.previous is None else get(change.previous.object)
        if now == before:
            return
        if before is not None:
            self._keys[before].discard(key)
            # Nodes come and go; an empty set per former node would stay for ever.
            if not self._keys[before]:
                del self._keys[before]
        if now is not None:
            self._add(now, key)

    def keys(self, value: str) -> Collection[str]:
        """Return the keys of the objects with a value, in no order."""
        return self._keys.get(value, ())

    def _add(self, value: str, key: str) -> None:
        self._keys.setdefault(value, set()).add(key)


class HistoryIndex:
    """The changes of a history by a field's value in the object or in its previous state.

    The agents of 10,000 nodes list their pods and then watch them. Meanwhile other agents write, and without the index
    each watch would test thousands of changes of other nodes.
    """

    __slots__ = ("_changes", "_get", "_indexed")

    def __init__(self, definition: AnyDefinition, field: str) -> None:
        self._get = getter(definition, field)
        self._changes: dict[str, deque[StoredChange]] = {}
        self._indexed = 0
        """The number of changes of the history, from its beginning, that are in the index."""

    def changes(self, history: deque[StoredChange], value: str) -> Iterable[StoredChange]:
        """Return the changes of a history with a value, in their order."""
        # Entered here and not with each write: few tables have watches that resume by a field.
        for change in islice(history, self._indexed, None):
            for each in self._values(change):
                self._changes.setdefault(each, deque()).append(change)
        self._indexed = len(history)
        return self._changes.get(value, ())

    def drop(self, change: StoredChange) -> None:
        """Drop the oldest change of the history."""
        if not self._indexed:
            return
        self._indexed -= 1
        for value in self._values(change):
            changes = self._changes[value]
            changes.popleft()
            if not changes:
                del self._changes[value]

    def _values(self, change: StoredChange) -> set[str]:
        values = {self._get(change.entry.object)}
        if change.previous is not None:
            values.add(self._get(change.previous.object))
        return values


class SortedKeys:
    """The keys of a table in storage order, which is that of lists.

    Tables are written far more often than they are listed, and lists of events are rare. Inserting a key moves half of
    all keys (5 µs of a write among 20,000). So new keys wait until the order is read.
    """

    __slots__ = ("_added", "_sorted", "add")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._sorted = sorted(keys)
        self._added: list[str] = []
        # The bound method of the list: creation of an object calls it, and a Python method would cost as much as the
        # insertion.
        self.add = self._added.append
        """Add a key that is not there."""

    def remove(self, key: str) -> None:
        """Remove a key that is there."""
        # The removed key may be among the new ones, so the order is brought up to date first.
        keys = self.in_order()
        del keys[bisect.bisect_left(keys, key)]

    def in_order(self) -> list[str]:
        """Return all keys, to be read before the next change."""
        if self._added:
            self._insert_added()
        return self._sorted

    def _insert_added(self) -> None:
        if len(self._added) < _FEW_KEYS:
            for key in self._added:
                bisect.insort(self._sorted, key)
        else:
            self._sorted += self._added
            self._sorted.sort()
        self._added.clear()


def end_of(under_way: UnderWay, key: str) -> asyncio.Future[None]:
    """Return a future that is set at the end of the write of ``key`` that is under way."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    # A future for each that waits. A shared one would be cancelled for all when one client leaves.
    under_way[key] = (*under_way[key], ended)
    return ended


def wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    """Wake requests that wait for the end of a write."""
    for ended in waiting:
        # The request may have been cancelled while it waited.
        if not ended.done():
            ended.set_result(None)


def _matches(selection: Selection, entry: StoredObject) -> bool:
    return selection.matches is None or selection.matches(entry.object)


def _revision(change: StoredChange) -> int:
    return change.revision
