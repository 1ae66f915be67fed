"""Delivery of changes to watchers: each sees a change by its selection, and has a bounded queue of events.

A watcher that does not keep up is cut: it lists again, and its events use no memory (docs/spec/apimachinery.md §9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Final

import msgspec

from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject, split_key
from cathedra.client.transport import EventType

_ADDED: Final = EventType.ADDED
_MODIFIED: Final = EventType.MODIFIED
_DELETED: Final = EventType.DELETED
"""Constants of this module: looking them up in their class for every write takes 0.4 µs."""

QUEUE_LIMIT: Final = 65_536
"""Events that may wait for one watcher before it is cut."""
QUEUE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the JSON of their objects."""
FRESH_LIMIT: Final = 1024
"""Events of a group that may gather before they are put into its watchers' queues."""


class StoredChange(msgspec.Struct, eq=False, gc=False):
    """One write: the state before (None if new) and after. For a removal ``entry`` is the last state, marked with the
    revision of the removal."""

    revision: int
    entry: StoredObject
    previous: StoredObject | None
    deleted: bool = False
    _departed: StoredObject | None = None
    size: int = 0
    """Bytes of the object's JSON; set by the table."""

    def broadcast(self, watchers: Watchers) -> None:
        """Offer the change to watchers. Those with the same selection share one event, so its line is encoded once."""
        entry = self.entry
        kind = _DELETED if self.deleted else _ADDED if self.previous is None else _MODIFIED
        # Once for each distinct selection. With one test per watcher, a thousand kubelets would make each write of a
        # pod a thousand evaluations.
        for alike in watchers.alike.values():
            # Most informers select nothing. The state before need not be tested, because it always matched.
            seen: Seen | None
            if alike.sees_all:
                seen = Seen(kind, entry)
            elif (seen := self.seen_by(alike.selection)) is None:
                continue
            fresh = alike.fresh
            fresh.append(seen)
            alike.size += seen.entry.size
            number = len(fresh)
            if number == 1:
                alike.wake()
            elif number >= FRESH_LIMIT or alike.size > QUEUE_BYTES:
                alike.give_out()

    @property
    def departed(self) -> StoredObject:
        """The state before the change, with the revision of the change: watchers whose selection the object has left
        see it as deleted."""
        if self._departed is None:
            assert self.previous is not None
            self._departed = self.previous.at(self.revision)
        return self._departed

    def seen_by(self, selection: Selection) -> Seen | None:
        """Return the event for a watcher with that selection; None if it sees nothing of the change."""
        matches, namespace = selection.matches, selection.namespace
        if namespace and split_key(self.entry.key)[0] != namespace:
            return None
        before = self.previous is not None and (matches is None or matches(self.previous.object))
        after = not self.deleted and (matches is None or matches(self.entry.object))
        if after:
            return Seen(_MODIFIED if before else _ADDED, self.entry)
        if before:
            # An object that leaves a selection is deleted for its watchers. Without this event their caches would keep
            # it for ever.
            return Seen(_DELETED, self.entry if self.deleted else self.departed)
        return None


class Seen(msgspec.Struct, eq=False, gc=False):
    """An event of a watch: its type, the state to show, and its encoded lines, one for each version."""

    type: EventType
    entry: StoredObject
    _lines: dict[Hashable, bytes] | None = None

    def line(self, form: Hashable) -> bytes | None:
        """Return the encoded event in one form; None if it was not encoded before."""
        return None if self._lines is None else self._lines.get(form)

    def keep_line(self, form: Hashable, line: bytes) -> bytes:
        """Keep an encoded line for the other watchers that share this event. Return it."""
        # Made here: events for parts of this process have no lines.
        if self._lines is None:
            self._lines = {}
        self._lines[form] = line
        return line


class Watcher:
    """Queue of the events of one client, which has seen everything up to the revision ``after``.

    Either a task waits in `take`, or ``on_events`` is called and `taken` empties the queue. Then many watchers share
    one turn of the loop, and need no task each.
    """

    __slots__ = ("_bytes", "_waiter", "after", "alike", "closed", "on_events", "queue", "selection")

    def __init__(self, selection: Selection, after: int = 0) -> None:
        self.selection = selection
        self.after = after
        """Events up to this revision are dropped: a client may resume from a server that was ahead of this one."""
        self.closed = False
        self.queue: list[Seen] = []
        """Events to take, without those that are still gathered in the group (`Alike.fresh`)."""
        self._bytes = 0
        """Bytes of the objects in the queue."""
        self.alike: Alike | None = None
        """The group through which it receives changes; None if it receives none."""
        self._waiter: asyncio.Future[None] | None = None
        self.on_events: Callable[[], None] | None = None
        """Called when events begin to wait, and when the stream ends."""

    @property
    def has_events(self) -> bool:
        """Return True if events wait, in the queue or in the group."""
        return bool(self.queue) or (self.alike is not None and bool(self.alike.fresh))

    def offer(self, change: StoredChange) -> None:
        """Queue the event of a change, if the watcher sees it."""
        seen = change.seen_by(self.selection)
        if seen is not None:
            self.push(seen)

    def push(self, seen: Seen) -> None:
        """Queue one event and wake the reader. Cut the watcher if its queue is full."""
        # A closed stream has a gap. Any further event would look like a complete history to the client.
        if self.closed or seen.entry.revision <= self.after:
            return
        queue = self.queue
        self._bytes += seen.entry.size
        # An empty queue always takes one event: a single object that is larger than the limit would otherwise cut every
        # watcher, and again after each relist.
        if queue and (len(queue) >= QUEUE_LIMIT or self._bytes > QUEUE_BYTES):
            self.close()
            return
        queue.append(seen)
        # Only at the first event. The reader empties the queue as a whole, so that further calls would wake it for
        # nothing.
        if len(queue) == 1:
            self.wake()

    def extend(self, events: list[Seen], size: int) -> None:
        """Queue events whose objects have ``size`` bytes; the reader was woken before. Leave out what the client has
        seen on another server. A stream that has ended gets nothing: events behind a gap would hide the gap."""
        if self.closed:
            return
        if events[0].entry.revision <= self.after:
            events = [seen for seen in events if seen.entry.revision > self.after]
        self._bytes += size
        waiting = len(self.queue) + len(events)
        if waiting > QUEUE_LIMIT or (self._bytes > QUEUE_BYTES and waiting > 1):
            self.close()
        else:
            self.queue.extend(events)

    def end_if_behind(self, revision: int) -> None:
        """End the stream if an event up to a revision is still queued. The history has dropped it, and the queue must
        not keep it in memory for a client that reads nothing."""
        self._gather()
        if self.queue and self.queue[0].entry.revision <= revision:
            self.close()

    def close(self) -> None:
        """End the stream and drop the queue."""
        self.closed = True
        self.queue.clear()
        self._bytes = 0
        self.wake()

    def end(self) -> None:
        """End the stream after the queued events are taken."""
        self._gather()
        self.closed = True
        self.wake()

    async def take(self) -> list[Seen]:
        """Wait for events and return all that are queued; an empty list when the stream has ended."""
        while not self.queue and not self.closed and (self.alike is None or not self.alike.fresh):
            # No event was there in the same turn of the loop, so none can arrive between the test and this future.
            self._waiter = asyncio.Future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self.taken()

    def taken(self, most: int = QUEUE_BYTES) -> list[Seen]:
        """Return the queued events, possibly none, until their objects have ``most`` bytes."""
        self._gather()
        if self._bytes > most:
            return self._taken_some(most)
        # The queue is replaced and not cleared: events that arrive while the reader sends are collected in the new one.
        taken, self.queue = self.queue, []
        self._bytes = 0
        return taken

    def _taken_some(self, most: int) -> list[Seen]:
        number = size = 0
        while number < len(self.queue) and size < most:
            size += self.queue[number].entry.size
            number += 1
        taken, self.queue = self.queue[:number], self.queue[number:]
        # Reset at the end, because `extend` counts events of a group that this client has already seen and that were
        # left out.
        self._bytes = self._bytes - size if self.queue else 0
        return taken

    def wake(self) -> None:
        """Notify the reader that there are events, or that the stream has ended."""
        if self.on_events is not None:
            self.on_events()
        # A done future belongs to a reader that was cancelled or woken already; setting it again would raise here, in
        # the writer's turn.
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _gather(self) -> None:
        if self.alike is not None and self.alike.fresh:
            self.alike.give_out()


class Watchers:
    """Watchers of one table, grouped by their selection."""

    __slots__ = ("alike",)

    def __init__(self) -> None:
        self.alike: dict[Hashable, Alike] = {}
        """By the texts of the selection."""

    def __bool__(self) -> bool:
        return bool(self.alike)

    def __iter__(self) -> Iterator[Watcher]:
        for alike in self.alike.values():
            yield from alike.watchers

    def add(self, watcher: Watcher) -> None:
        """Deliver further changes to the watcher."""
        key = _made_from(watcher.selection)
        alike = self.alike.get(key)
        if alike is None:
            alike = self.alike[key] = Alike(watcher.selection)
        alike.add(watcher)

    def discard(self, watcher: Watcher) -> None:
        """Deliver nothing more to a watcher, if it is one of these."""
        key = _made_from(watcher.selection)
        alike = self.alike.get(key)
        if alike is not None:
            alike.discard(watcher)
            # Selections come from clients. Empty groups would accumulate, and each would be evaluated for every write.
            if not alike.watchers:
                del self.alike[key]


class Alike:
    """Watchers with the same selection.

    A write of an object that a hundred clients watch would append to a hundred queues. So an event is appended once to
    the group, and the queues get what has gathered when the first watcher takes its events.
    """

    __slots__ = ("fresh", "sees_all", "selection", "size", "watchers")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.sees_all = selection.matches is None and not selection.namespace
        """True if every object of the table is selected."""
        self.watchers: dict[Watcher, None] = {}
        self.fresh: list[Seen] = []
        """Events that are in no queue yet."""
        self.size = 0
        """Bytes of their objects."""

    def add(self, watcher: Watcher) -> None:
        """Add a watcher. Events that have gathered go to the others first: it must not receive what was before it."""
        self.give_out()
        watcher.alike = self
        self.watchers[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        """Remove a watcher, if it is one of these. It keeps the events that have gathered for it."""
        if watcher in self.watchers:
            self.give_out()
            watcher.alike = None
            del self.watchers[watcher]

    def wake(self) -> None:
        """Wake the readers that have nothing else to take than what has gathered."""
        for watcher in self.watchers:
            if not watcher.queue:  # else its reader was woken when that began to fill
                watcher.wake()

    def give_out(self) -> None:
        """Move the events that have gathered into the watchers' queues."""
        if self.fresh:
            fresh, self.fresh = self.fresh, []
            size, self.size = self.size, 0
            # A copy: a watcher that is cut here may be discarded by its callback during the iteration.
            for watcher in tuple(self.watchers):
                watcher.extend(fresh, size)


def _made_from(selection: Selection) -> Hashable:
    """Return a key that is equal for selections of the same objects."""
    return selection.text or selection
