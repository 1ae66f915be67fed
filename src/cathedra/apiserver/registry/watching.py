"""A change, as watchers with different selections see it, and the queue of one watcher.

A watcher that does not keep up is cut instead of being buffered without end (docs/spec/apimachinery.md §9).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final

import msgspec

from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject, split_key
from cathedra.client.transport import EventType

__all__ = ["Seen", "StoredChange", "Watcher", "Watchers"]

_ADDED: Final = EventType.ADDED
_MODIFIED: Final = EventType.MODIFIED
_DELETED: Final = EventType.DELETED
"""Read for every write; reading them off their class takes 0.4 µs."""

QUEUE_LIMIT: Final = 65_536
"""Events that may wait for one watcher before it is cut."""
QUEUE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the JSON of their objects."""
FRESH_LIMIT: Final = 1024
"""Events that may gather before they are queued, whether a watcher takes them or not."""


class StoredChange(msgspec.Struct, eq=False):
    """One write: the state before (None if new) and after. For a removal ``entry`` is the last state, marked with the
    revision of the removal."""

    revision: int
    entry: StoredObject
    previous: StoredObject | None
    deleted: bool = False
    _departed: StoredObject | None = None
    size: int = 0
    """Bytes of JSON of the object, as its table enters them."""

    def broadcast(self, watchers: Watchers) -> None:
        """Offer the change to watchers; those with the same selection get the same event, whose line is made once."""
        namespace = None
        kind = _DELETED if self.deleted else _ADDED if self.previous is None else _MODIFIED
        for alike in watchers.alike.values():
            selection = alike.selection
            if selection.namespace:
                if namespace is None:
                    namespace, _ = split_key(self.entry.key)
                if selection.namespace != namespace:
                    continue
            seen = Seen(kind, self.entry) if selection.matches is None else self.seen_by(selection)
            if seen is not None:
                alike.push(seen)

    @property
    def departed(self) -> StoredObject:
        """The last state that matched a selection the object has left, marked with the revision of leaving."""
        if self._departed is None:
            assert self.previous is not None
            self._departed = self.previous.at(self.revision)
        return self._departed

    def seen_by(self, selection: Selection) -> Seen | None:
        """The event that this change is to a watcher with that selection, if any."""
        matches = selection.matches
        before = self.previous is not None and (matches is None or matches(self.previous.object))
        after = not self.deleted and (matches is None or matches(self.entry.object))
        if after:
            return Seen(_MODIFIED if before else _ADDED, self.entry)
        if before:
            return Seen(_DELETED, self.entry if self.deleted else self.departed)
        return None


class Seen(msgspec.Struct, eq=False):
    """What a watcher gets: the kind of event and the state to show, with its line in each version made once."""

    type: EventType
    entry: StoredObject
    _lines: dict[Hashable, bytes] = {}

    def line(self, form: Hashable) -> bytes | None:
        """The event in one form, as it goes out, if it was encoded before."""
        return self._lines.get(form)

    def keep_line(self, form: Hashable, line: bytes) -> bytes:
        """Keep a line for the others who see this event."""
        self._lines[form] = line
        return line


class Watcher:
    """The events that wait for one client, which has seen everything up to the revision ``after``.

    Either a task waits for them in `take`, or ``on_events`` is called and `taken` empties the queue: many watchers then
    need one turn of the loop, and no task each.
    """

    __slots__ = ("_bytes", "_waiter", "after", "alike", "closed", "on_events", "queue", "selection")

    def __init__(self, selection: Selection, after: int = 0) -> None:
        self.selection = selection
        self.after = after
        """It sees changes of later revisions only."""
        self.closed = False
        self.queue: deque[Seen] = deque()
        """What waits, but for what all that select the same have yet to be given."""
        self._bytes = 0
        """Of the objects of what waits."""
        self.alike: Alike | None = None
        """With whom it hears of changes; None: it does not."""
        self._waiter: asyncio.Future[None] | None = None
        self.on_events: Callable[[], None] | None = None
        """Called when events begin to wait, and when the stream ends."""

    def offer(self, change: StoredChange) -> None:
        """Queue what this watcher sees of the change; cut it when too much waits already."""
        seen = change.seen_by(self.selection)
        if seen is not None:
            self.push(seen)

    def push(self, seen: Seen) -> None:
        """Queue one event and wake who waits for it."""
        if self.closed or seen.entry.revision <= self.after:
            return
        queue = self.queue
        self._bytes += seen.entry.size
        if queue and (len(queue) >= QUEUE_LIMIT or self._bytes > QUEUE_BYTES):
            self.close()
            return
        queue.append(seen)
        if len(queue) == 1:
            self.wake()

    def extend(self, events: list[Seen], size: int) -> None:
        """Queue events, with objects of so many bytes, of which those know who wait for them. What its client has seen
        on another server, which was further, is left out; a stream that has ended gets nothing, for what came after a
        gap would hide it."""
        if self.closed:
            return
        if events[0].entry.revision <= self.after:
            events = [seen for seen in events if seen.entry.revision > self.after]
        self._bytes += size
        if len(self.queue) + len(events) > QUEUE_LIMIT or (self.queue and self._bytes > QUEUE_BYTES):
            self.close()
        else:
            self.queue.extend(events)

    def end_if_behind(self, revision: int) -> None:
        """End the stream if an event up to a revision still waits: the history does not reach back so far, and what is
        not in it is not kept for clients that do not take their events."""
        if self.queue and self.queue[0].entry.revision <= revision:
            self.close()

    def close(self) -> None:
        """End the stream; what waits is dropped."""
        self.closed = True
        self.queue.clear()
        self._bytes = 0
        self.wake()

    def end(self) -> None:
        """End the stream once what waits is taken."""
        self._gather()
        self.closed = True
        self.wake()

    async def take(self) -> list[Seen]:
        """All waiting events, at least one; an empty list when the stream has ended."""
        while not (taken := self.taken()) and not self.closed:
            self._waiter = asyncio.Future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return taken

    def taken(self, most: int = QUEUE_BYTES) -> list[Seen]:
        """Take the events that wait now, which may be none, until their objects have ``most`` bytes."""
        self._gather()
        if self._bytes > most:
            return self._taken_some(most)
        taken, self.queue = list(self.queue), deque()
        self._bytes = 0
        return taken

    def _taken_some(self, most: int) -> list[Seen]:
        taken, size = [], 0
        while self.queue and size < most:
            taken.append(self.queue.popleft())
            size += taken[-1].entry.size
        self._bytes = self._bytes - size if self.queue else 0
        return taken

    def wake(self) -> None:
        """Tell who waits that there are events, or that the stream has ended."""
        if self.on_events is not None:
            self.on_events()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _gather(self) -> None:
        if self.alike is not None and self.alike.fresh:
            self.alike.give_out()


class Watchers:
    """Watchers of one table, those with the same selection together."""

    __slots__ = ("alike",)

    def __init__(self) -> None:
        self.alike: dict[Hashable, Alike] = {}
        """By what their selection was made from."""

    def __bool__(self) -> bool:
        return bool(self.alike)

    def __iter__(self) -> Iterator[Watcher]:
        for alike in self.alike.values():
            yield from alike.watchers

    def add(self, watcher: Watcher) -> None:
        """From now on the watcher hears of changes."""
        key = _made_from(watcher.selection)
        alike = self.alike.get(key)
        if alike is None:
            alike = self.alike[key] = Alike(watcher.selection)
        alike.add(watcher)

    def discard(self, watcher: Watcher) -> None:
        """Let go of a watcher, if it is one of these."""
        key = _made_from(watcher.selection)
        alike = self.alike.get(key)
        if alike is not None:
            alike.discard(watcher)
            if not alike.watchers:
                del self.alike[key]


class Alike:
    """Watchers that select the same.

    Each step for each watcher is made a hundred times for one write where there are a hundred. So an event is put down
    once, and the watchers' queues get what has gathered when the first of them takes its events.
    """

    __slots__ = ("fresh", "selection", "watchers")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.watchers: dict[Watcher, None] = {}
        self.fresh: list[Seen] = []
        """Events that are in no queue yet."""

    def add(self, watcher: Watcher) -> None:
        """Let a watcher hear of what comes from now on."""
        self.give_out()
        watcher.alike = self
        self.watchers[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        """Let go of a watcher, which keeps what it has heard of, if it is one of these."""
        if watcher in self.watchers:
            self.give_out()
            watcher.alike = None
            del self.watchers[watcher]

    def push(self, seen: Seen) -> None:
        """Let all know of an event."""
        if len(self.watchers) == 1:
            for watcher in self.watchers:
                watcher.push(seen)
            return
        fresh = self.fresh
        fresh.append(seen)
        if len(fresh) == 1:
            for watcher in self.watchers:
                if not watcher.queue:  # else it knows already
                    watcher.wake()
        elif len(fresh) >= FRESH_LIMIT:
            self.give_out()

    def give_out(self) -> None:
        """Queue what has gathered for each of them."""
        if self.fresh:
            fresh, self.fresh = self.fresh, []
            size = sum([seen.entry.size for seen in fresh])
            for watcher in tuple(self.watchers):
                watcher.extend(fresh, size)


def _made_from(selection: Selection) -> Hashable:
    """What is the same in selections that select the same."""
    return selection.text or selection
