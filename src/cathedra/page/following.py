"""Following of a cluster: informers, and from their stores a new state for the engine and a new map for the pages.

Changes that come together are handled together: a state is made at most every `PAUSE` seconds, and at most for a
third of the time, so that a large cluster with many changes does not occupy the processor. A state shares everything
that has not changed with the one before, and the map is computed where it differs (`LiveMap`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Event
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceSlice
from cathedra.api.undecodable import Undecodable
from cathedra.client.client import Client
from cathedra.client.informer import Informer, InformerSelection
from cathedra.client.transport import APICall, Transport, WatchEvent
from cathedra.clock import Clock
from cathedra.engine import Engine
from cathedra.insight.inventory.clustermap import ClusterMap
from cathedra.insight.inventory.livemap import LiveMap
from cathedra.insight.reading.state import READ_KINDS, ClusterState, Key, key_of, note_on
from cathedra.page.history import KEPT_SECONDS, MapEvent, MapHistory

PAUSE: Final = 0.05
"""Seconds in which changes are collected: a few frames of a page."""
_SHARE: Final = 2.0
"""Pause after a state was made, as a multiple of the time that it took."""
_CONTACT_SECONDS: Final = 2.0
_MOST_EVENTS: Final = 200
"""Kubernetes events in one change; a storm of them repeats itself."""
_EVICTIONS: Final = frozenset(
    ("TaintManagerEviction", "DeviceTaintManagerEviction", "Preempted", "Evicted", "EvictionByEvictionAPI")
)


class ContactTransport:
    """A transport that remembers since when the server has not answered."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner, self._clock = inner, clock
        self.lost_since: float | None = None

    async def call(self, call: APICall) -> Any:
        """Carry out a call."""
        with _Contact(self):
            return await self._inner.call(call)

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes to all pages."""
        return self._watch(call)

    @asynccontextmanager
    async def _watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        with _Contact(self):
            async with self._inner.watch(call) as events:
                self.lost_since = None
                yield events

    async def close(self) -> None:
        """Close the connections of the transport inside."""
        await self._inner.close()

    def note(self, *, reached: bool) -> None:
        """Record the outcome of a request."""
        if reached:
            self.lost_since = None
        elif self.lost_since is None:
            self.lost_since = self._clock.now()


class _Contact:
    """Records whether the body reached the server; a refusal is an answer, too."""

    def __init__(self, transport: ContactTransport) -> None:
        self._transport = transport

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self._transport.note(reached=True)
        elif issubclass(kind, ConnectionError):
            self._transport.note(reached=False)


class ClusterFollower:
    """Keeps the state of an engine, and a history of its map, up to date."""

    def __init__(
        self, engine: Engine, transport: Transport, *, namespace: str, clock: Clock, executor: Executor
    ) -> None:
        """``engine`` has the state that was read last; kinds that could not be read are not followed. Maps are computed
        on ``executor``, which is not that of the engine's questions: a long one would hold up the picture."""
        self._engine, self._clock, self._executor = engine, clock, executor
        self._contact = ContactTransport(transport, clock)
        client = Client(self._contact, clock=clock)
        self._first = engine.state
        self._informers = [
            Informer(client, kind.ref, InformerSelection(selected), clock=clock)
            for kind, selected in _followed(self._first, namespace)
        ]
        self._changed = asyncio.Event()
        self._objects: dict[type[KubeObject], dict[Key, KubeObject]] = {}
        self._outdated: set[type[KubeObject]] = {one.ref.type for one in self._informers}
        """Kinds of which `_objects` is not what the informer has."""
        self._kept: dict[type[KubeObject], dict[Key, KubeObject]] = {}
        """Objects of the first state that the informers have in the same version. They stay those of later states,
        which otherwise would differ from the first one in every object."""
        self._live = LiveMap()
        engine.replace(self._first, self._live)
        self._states = engine.past = StateHistory(self._first)
        self._news: dict[str, MapEvent] = {}
        self.history = MapHistory(engine.map, self._first.now or clock.now(), self._past_events())
        for informer in self._informers:
            kind = informer.ref.type
            if informer.ref.type is Event:
                informer.add_handler(self._note_event, lambda _, new: self._note_event(new))
            else:
                informer.add_handler(
                    partial(self._note_added, kind),
                    partial(self._note_updated, kind),
                    partial(self._note_gone, kind),
                    on_undecodable=partial(self._note_undecodable, kind),
                )

    @property
    def lost_since(self) -> float | None:
        """The time since when the server has not answered; None: it answers."""
        return self._contact.lost_since

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())
            group.create_task(self._keep_contact())
            for informer in self._informers:
                await informer.wait_synced()
            while True:
                await self._changed.wait()
                await self._clock.sleep(PAUSE)
                self._changed.clear()
                began = self._clock.monotonic()
                await self._renew()
                await self._clock.sleep(_SHARE * (self._clock.monotonic() - began))

    def lines(self, since: float = 0.0) -> AsyncIterator[bytes]:
        """Yield the history and each change as JSON."""
        return self.history.lines(since)

    async def _renew(self) -> None:
        state = self._state()
        news, self._news = tuple(self._news.values()), {}
        made = await asyncio.get_running_loop().run_in_executor(self._executor, self._map_of, state)
        self.history.advance(made, state.now or 0.0, news)

    def _map_of(self, state: ClusterState) -> ClusterMap:
        self._states.advance(state)
        self._engine.replace(state, self._live)
        return self._engine.map

    def _state(self) -> ClusterState:
        undecodable: list[Undecodable] = []
        for informer in self._informers:
            if informer.ref.type in self._outdated:
                # A copy, which the thread reads while the informer goes on.
                kept = self._kept.get(informer.ref.type, {})
                self._objects[informer.ref.type] = {**informer.store.by_key, **kept}
            undecodable.extend(informer.store.undecodable.values())
        self._outdated.clear()
        found = ClusterState.keyed({**self._first.objects, **self._objects}, self._first.source)
        notes = (one for one in self._first.notes if one.problem != "undecodable")
        return dataclasses.replace(
            self._first,
            objects=found.objects,
            undecodable=tuple(undecodable),
            notes=(*notes, *map(note_on, undecodable)),
            now=self._clock.now(),
        )

    def _note_added(self, kind: type[KubeObject], one: KubeObject) -> None:
        key = key_of(one)
        self._note(kind, key)
        known = self._first.objects.get(kind, {}).get(key)
        if known is not None and _version(known) == _version(one):
            self._kept.setdefault(kind, {})[key] = known

    def _note_updated(self, kind: type[KubeObject], _: KubeObject, one: KubeObject) -> None:
        self._note(kind, key_of(one))

    def _note_gone(self, kind: type[KubeObject], one: KubeObject) -> None:
        self._note(kind, key_of(one))

    def _note_undecodable(self, kind: type[KubeObject], what: Undecodable) -> None:
        self._note(kind, (what.namespace, what.name))

    def _note(self, kind: type[KubeObject], key: Key) -> None:
        self._kept.get(kind, {}).pop(key, None)
        self._outdated.add(kind)
        self._changed.set()

    def _note_event(self, event: Event) -> None:
        self._outdated.add(Event)
        found = _map_event(event)
        # The first list repeats the events that the first map has.
        if found is not None and event_time(event) > (self._first.now or 0.0) and len(self._news) < _MOST_EVENTS:
            self._news[event.metadata.uid] = found
            self._changed.set()

    def _past_events(self) -> Iterator[tuple[float, MapEvent]]:
        oldest = (self._first.now or 0.0) - KEPT_SECONDS
        for event in self._first.all(Event):
            found, time = _map_event(event), event_time(event)
            if found is not None and time >= oldest:
                yield time, found

    async def _keep_contact(self) -> None:
        while True:
            self.history.note_contact(self._clock.now(), self._contact.lost_since)
            await self._clock.sleep(_CONTACT_SECONDS)


def _version(one: KubeObject) -> tuple[str, str | None]:
    return one.metadata.uid, one.metadata.resource_version


def _followed(state: ClusterState, namespace: str) -> Iterator[tuple[Any, str]]:
    """Yield the kinds that could be read, with the namespace to which reading was limited."""
    partial = {one.resource for one in state.notes if one.problem == "partial"}
    for kind in READ_KINDS:
        if kind.plural in partial:
            yield kind, namespace
        elif state.is_known(kind.ref.type) and (not kind.gate or state.gates.get(kind.gate, False)):
            yield kind, ""


def _map_event(event: Event) -> MapEvent | None:
    evicted = event.reason in _EVICTIONS
    if not evicted and event.type != "Warning":
        return None
    about = event.involved_object
    where = f"{about.namespace}/{about.name}" if about.namespace else about.name
    text = f"{about.kind.lower()} {where}: {event.reason}: {event.message or ''}"
    return MapEvent("evicted" if evicted else "failed", text[:300])


# States of the last hour, with which the page explains an earlier moment.
#
# The present state is kept whole, and of each change the objects as they were before. A state of an earlier moment is
# the present with all later changes taken back.

MOST_OBJECTS: Final = 200_000
"""Former objects that are kept, where a slice counts as its devices; beyond, the oldest changes are dropped before
their hour is over."""

_Former = Mapping[type[KubeObject], Mapping[Key, KubeObject | None]]


@dataclasses.dataclass(frozen=True, slots=True)
class _StateChange:
    """One change of the state."""

    now: float
    """Time of the state after the change."""
    former: _Former
    """The objects before it; None for those that it created."""
    before: ClusterState
    """The state before it without its objects, which would keep all of them in memory."""

    @property
    def size(self) -> int:
        """Return the number of objects, where a slice counts as its devices."""
        slices = self.former.get(ResourceSlice, {}).values()
        devices = sum(len(one.spec.devices or ()) for one in slices if isinstance(one, ResourceSlice))
        return sum(map(len, self.former.values())) + devices


class StateHistory:
    """The state of a followed cluster at every moment since it was first read.

    States are added in one thread and taken back in another, so both hold a lock: a change in the middle of the walk
    would be taken back twice, or not at all.
    """

    def __init__(self, first: ClusterState) -> None:
        self._present = first
        self._steps: deque[_StateChange] = deque()
        self._size = 0
        self._began = first.now or 0.0
        self._last: tuple[float, ClusterState] | None = None
        """The state that was taken back last: a moment is mostly followed by several questions."""
        self._lock = threading.Lock()

    def advance(self, state: ClusterState) -> None:
        """Record the next state."""
        with self._lock:
            kinds = {*self._present.objects, *state.objects}
            former = {kind: found for kind in kinds if (found := _former(self._present, state, kind))}
            step = _StateChange(state.now or 0.0, former, dataclasses.replace(self._present, objects={}, followed=None))
            self._present = state
            self._steps.append(step)
            self._size += step.size
            self._last = None
            while self._steps[0].now < step.now - KEPT_SECONDS or (self._size > MOST_OBJECTS and len(self._steps) > 1):
                dropped = self._steps.popleft()
                self._size -= dropped.size
                self._began = dropped.now

    def at(self, seconds: float) -> ClusterState:
        """Return the state of a moment, in seconds since the Unix epoch.

        Raises:
            InvalidInput: it is earlier than all states that are kept.
        """
        with self._lock:
            if seconds < self._began:
                raise InvalidInput(
                    f"the objects of {_clock(seconds)} are not kept; the oldest state is of {_clock(self._began)}"
                )
            if self._last is None or self._last[0] != seconds:
                self._last = seconds, self._taken_back(seconds)
            return self._last[1]

    def _taken_back(self, seconds: float) -> ClusterState:
        objects: dict[type[KubeObject], dict[Key, KubeObject]] = {
            kind: dict(items) for kind, items in self._present.objects.items()
        }
        like = self._present
        for step in reversed(self._steps):
            if step.now <= seconds:
                break
            like = step.before
            for kind, items in step.former.items():
                _put_back(objects.setdefault(kind, {}), items)
        # Events are not recorded: each contains the time at which it happened.
        objects[Event] = {key: one for key, one in objects.get(Event, {}).items() if event_time(one) <= seconds}
        return dataclasses.replace(like, objects=objects, now=seconds, followed=None)


def event_time(event: Any) -> float:
    """Return the time at which an event was seen last; 0 if it has none."""
    series = event.series.last_observed_time if event.series is not None else None
    stamp = series or event.last_timestamp or event.event_time or event.first_timestamp
    return stamp.timestamp if stamp else 0.0


def _former(before: ClusterState, state: ClusterState, kind: type[KubeObject]) -> Mapping[Key, KubeObject | None]:
    if kind is Event:
        return {}
    return {key: former for key, former, _ in state.changes_since(before, kind)}


def _put_back(objects: dict[Key, KubeObject], former: Mapping[Key, KubeObject | None]) -> None:
    for key, one in former.items():
        if one is None:
            objects.pop(key, None)
        else:
            objects[key] = one


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
