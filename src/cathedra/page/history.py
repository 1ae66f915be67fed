"""Changes of a map during the last hour, and the streams of pages that follow them.

A change has the new devices and the former ones, so that a page can show every moment of the hour from the present map
backwards. Streams hold a position in the list instead of a queue: a page that reads slowly or was suspended costs
nothing. If changes that it has missed were dropped, it gets the whole map.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import compress, count
from operator import is_not
from typing import Any, Final, TypeVar

import msgspec

from cathedra.insight.inventory.clustermap import ClusterMap, MapNode, MapSubject
from cathedra.insight.inventory.compactmap import compact_map
from cathedra.insight.inventory.report import DeviceEntry
from cathedra.insight.reading.state import Note

KEPT_SECONDS: Final = 3600.0
MOST_DEVICES: Final = 200_000
"""Devices in all remembered changes; beyond, the oldest changes are dropped before their hour is over."""
TICK_SECONDS: Final = 2.0
"""Seconds between two heartbeats."""
T = TypeVar("T")


class MapEvent(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of the timeline."""

    kind: str
    """«allocated», «freed», «evicted», «failed», «changed»."""
    text: str
    claim: str = ""


class MapChange(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The difference between two maps; fields that are equal are left out."""

    now: float
    type: str = ""
    devices: Sequence[DeviceEntry] = ()
    before: Sequence[DeviceEntry] = ()
    """The former entries of changed devices, and of those that have gone; likewise of nodes and subjects."""
    gone_devices: Sequence[str] = ()
    nodes: Sequence[MapNode] = ()
    before_nodes: Sequence[MapNode] = ()
    gone_nodes: Sequence[str] = ()
    subjects: Sequence[MapSubject] = ()
    before_subjects: Sequence[MapSubject] = ()
    gone_subjects: Sequence[str] = ()
    classes: Sequence[str] | None = None
    taint_rules: Sequence[str] | None = None
    pools: Sequence[str] | None = None
    notes: Sequence[Note] | None = None
    events: Sequence[MapEvent] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing but the time differs."""
        return self == MapChange(self.now, self.type)


class Unchanging:
    """Stream of changes of a dump, which reports once that nothing will change."""

    async def lines(self, since: float = 0.0) -> AsyncIterator[bytes]:
        """Yield one line, and wait until the client leaves."""
        yield b'{"type":"static"}'
        await asyncio.get_running_loop().create_future()


class MapHistory:
    """The present map, and the changes that led to it."""

    def __init__(self, first: ClusterMap, now: float, events: Iterable[tuple[float, MapEvent]] = ()) -> None:
        """``events`` are those before the first map, with their times; the map cannot be shown as it was then."""
        self._map = first
        self._began = now
        self._past = tuple(MapChange(time, "change", events=(event,)) for time, event in sorted(events, key=_time))
        self._changes: deque[tuple[int, MapChange]] = deque()
        self._number = self._remembered = 0
        self._grown = asyncio.Event()
        self._last_read = now
        self._lost_since: float | None = None

    def advance(self, new: ClusterMap, now: float, events: Iterable[MapEvent] = ()) -> None:
        """Record the difference to the present map, and wake the streams. ``events`` are those of the cluster."""
        self._last_read = now
        change = difference(self._map, new, now, events)
        self._map = new
        if change.is_empty:
            return
        self._number += 1
        self._changes.append((self._number, change))
        self._remembered += _size(change)
        while self._changes and (
            self._changes[0][1].now < now - KEPT_SECONDS or (self._remembered > MOST_DEVICES and len(self._changes) > 1)
        ):
            self._remembered -= _size(self._changes.popleft()[1])
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def note_contact(self, now: float, lost_since: float | None) -> None:
        """Record that the map is current at ``now``, or the time since which the cluster has not answered."""
        self._lost_since = lost_since
        if lost_since is None:
            self._last_read = now

    async def lines(self, since: float = 0.0) -> AsyncIterator[bytes]:
        """Yield the history, then each change, and a tick while there is none. ``since`` is the time of the map that
        the page has; without one it gets the map first."""
        position = self._number
        yield self._start(since)
        while True:
            grown = self._grown
            if self._changes and position < self._changes[0][0] - 1:
                position = self._number
                yield self._start(0.0)
            for number, change in tuple(self._changes):
                if number > position:
                    position = number
                    yield msgspec.json.encode(change)
            # A change that was recorded while a line was sent has replaced the event.
            if grown is not self._grown:
                continue
            yield self._tick()
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await grown.wait()
            except TimeoutError:
                pass

    def _start(self, since: float) -> bytes:
        oldest = self._changes[0][1].now if self._changes else self._map.now or 0.0
        known = since >= min(oldest, self._began) and since <= (self._map.now or 0.0)
        changes = [change for _, change in self._changes]
        past = [one for one in self._past if one.now >= self._last_read - KEPT_SECONDS]
        found: dict[str, Any] = {
            "type": "start",
            "readAt": self._last_read,
            "began": max(self._began, changes[0].now if len(self._changes) < self._number else 0.0),
            "history": [*past, *(one for one in changes if not known or one.now <= since)],
            "changes": [one for one in changes if known and one.now > since],
        }
        if not known:
            found["map"] = msgspec.Raw(compact_map(self._map).encode())
        return msgspec.json.encode(found)

    def _tick(self) -> bytes:
        return msgspec.json.encode({"type": "tick", "readAt": self._last_read, "lostSince": self._lost_since})


def difference(old: ClusterMap, new: ClusterMap, now: float, events: Iterable[MapEvent] = ()) -> MapChange:
    """Return the difference between two maps, with the allocations that it implies."""
    devices, before, gone = _compared(old.devices, new.devices, _key)
    nodes, before_nodes, gone_nodes = _compared(old.nodes, new.nodes, _node_key)
    subjects, before_subjects, gone_subjects = _compared(old.subjects, new.subjects, _subject_key)
    return MapChange(
        now=now,
        type="change",
        devices=devices,
        before=before,
        gone_devices=tuple(gone),
        nodes=nodes,
        before_nodes=before_nodes,
        gone_nodes=tuple(gone_nodes),
        subjects=subjects,
        before_subjects=before_subjects,
        gone_subjects=tuple(gone_subjects),
        classes=None if old.classes == new.classes else new.classes,
        taint_rules=None if old.taint_rules == new.taint_rules else new.taint_rules,
        pools=None if old.pools == new.pools else new.pools,
        notes=None if old.notes == new.notes else new.notes,
        events=(*_allocations(before, devices), *events),
    )


def _compared(
    old: Sequence[T], new: Sequence[T], key: Callable[[T], str]
) -> tuple[tuple[T, ...], tuple[T, ...], list[str]]:
    """Return the values that are new or different, the former ones of those that differ or have gone, and the keys of
    these."""
    old_part, new_part = _differing(old, new)
    before, after = {key(one): one for one in old_part}, {key(one): one for one in new_part}
    changed = {name: one for name, one in after.items() if before.get(name) != one}
    former = tuple(one for name, one in before.items() if name in changed or name not in after)
    return tuple(changed.values()), former, [name for name in before if name not in after]


def _differing(old: Sequence[T], new: Sequence[T]) -> tuple[Iterable[T], Iterable[T]]:
    """Return the parts of two sequences that are not the same objects.

    Two successive maps share nearly all of their entries, in the same order (`LiveMap`). This finds the others among
    40,000 in 2 ms; keys of all, which are texts, take 80 ms.
    """
    shorter = min(len(old), len(new))
    begin = next(compress(count(), map(is_not, old, new)), shorter)
    same_end = next(compress(count(), map(is_not, reversed(old), reversed(new))), shorter)
    end = min(same_end, shorter - begin)
    old, new = old[begin : len(old) - end], new[begin : len(new) - end]
    if len(old) != len(new):
        return old, new
    places = list(compress(count(), map(is_not, old, new)))
    return map(old.__getitem__, places), map(new.__getitem__, places)


def _allocations(before: Iterable[DeviceEntry], after: Iterable[DeviceEntry]) -> Iterator[MapEvent]:
    held, holds = _claims(before), _claims(after)
    for claim in holds.keys() - held.keys():
        yield MapEvent("allocated", f"claim {claim} was allocated {_some(holds[claim])}", claim)
    for claim in held.keys() - holds.keys():
        yield MapEvent("freed", f"claim {claim} gave back {_some(held[claim])}", claim)
    former = _by_key(before)
    for one in after:
        old = former.get(_key(one))
        if old is not None and old.taints != one.taints:
            what = f"tainted: {', '.join(one.taints)}" if one.taints else "no longer tainted"
            yield MapEvent("changed", f"{one.device} on {one.node or one.pool} is {what}")
        if old is not None and old.health != one.health and one.health:
            kind = "failed" if one.health == "Unhealthy" else "changed"
            yield MapEvent(kind, f"{one.device} on {one.node or one.pool} is {one.health.lower()}")


def _claims(devices: Iterable[DeviceEntry]) -> dict[str, list[DeviceEntry]]:
    found: dict[str, list[DeviceEntry]] = {}
    for device in devices:
        for holder in device.holders:
            found.setdefault(holder.claim, []).append(device)
    return found


def _some(devices: Sequence[DeviceEntry]) -> str:
    first = devices[0]
    more = f" and {len(devices) - 1} more" if len(devices) > 1 else ""
    return f"{first.device}{more} on {first.node or first.pool}"


def _key(one: DeviceEntry) -> str:
    return f"{one.driver}/{one.pool}/{one.device}"


def _by_key(devices: Iterable[DeviceEntry]) -> dict[str, DeviceEntry]:
    return {_key(one): one for one in devices}


def _node_key(one: MapNode) -> str:
    return one.name


def _subject_key(one: MapSubject) -> str:
    return f"{one.kind}/{one.namespace}/{one.name}"


def _size(change: MapChange) -> int:
    changed = (change.devices, change.before, change.subjects, change.before_subjects, change.before_nodes)
    return sum(map(len, changed)) + len(change.events)


def _time(one: tuple[float, MapEvent]) -> float:
    return one[0]
