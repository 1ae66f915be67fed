"""Recording of events: without waiting, written in the background, aggregated when they repeat.

`EventRecorder.record` never waits and never fails: events help people and are not part of the work. There are two forms
(docs/spec/apimachinery.md §18). Without an ``action`` it is the classic one: repetitions increment ``count``, more than
ten similar ones in ten minutes are aggregated into one text, and a source may record 25 events about one object and
then one every five minutes. With an ``action`` it is the newer form, as the scheduler's: ``eventTime`` is set, and
repetitions of one reason become a ``series``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, Literal, TypeVar
from zlib import crc32

import msgspec

from cathedra.api.core.core_v1 import Event, EventSource, ObjectReference
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.scheme import GroupVersionKind, kind_of
from cathedra.api.status import StatusError
from cathedra.api.struct import MicroTime, Time, replace
from cathedra.client.backoff import TokenBucket
from cathedra.client.client import Client
from cathedra.client.objects import reference_to
from cathedra.client.resources import EVENTS
from cathedra.client.transport import PatchType
from cathedra.client.workqueue import one_of_many
from cathedra.clock import Clock

EventType = Literal["Normal", "Warning"]

_LOG = logging.getLogger(__name__)

REMEMBERED: Final = 4096
"""Maximum number of events, and of spam sources, that are remembered, as in client-go."""
QUEUED: Final = 1000
"""Maximum number of events that wait to be written; more are dropped."""
_MESSAGE_LENGTH: Final = 1024
_CUT: Final = " ..."
SIMILAR: Final = 10
"""Number of events within `SIMILAR_SECONDS` that differ only in their message, from which they are aggregated."""
SIMILAR_SECONDS: Final = 600.0
SPAM_BURST: Final = 25
SPAM_RATE: Final = 1 / 300
SERIES_SECONDS: Final = 360.0
"""Seconds between writes of a series that continues, and after which a series without events is over."""
ATTEMPTS: Final = 12
RETRY_SECONDS: Final = 10.0

V = TypeVar("V")


class _Recent(Generic[V]):
    """The most recently used values by key, made when missing."""

    def __init__(self, make: Callable[[], V], most: int) -> None:
        self._make, self._most = make, most
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def of(self, key: Hashable) -> V:
        value = self._values.get(key)
        if value is None:
            value = self._make()
            self._values[key] = value
            if len(self._values) > self._most:
                # The least recently used one: a forgotten event only loses its count.
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value

    def __iter__(self) -> Any:
        return iter(self._values.values())


class _Similar(msgspec.Struct):
    """Events alike but for their message."""

    messages: set[str]
    last: float = 0.0


class _Written(msgspec.Struct):
    """An event as the API server has it, and as it should be."""

    namespace: str = ""
    name: str = ""
    count: int = 0
    last_seen: float = 0.0
    last_written: float = 0.0


class RecordedEvent(msgspec.Struct, frozen=True):
    """A recorded event before aggregation."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    action: str
    at: float
    component: str


def shortened(message: str) -> str:
    """Return an event's message as far as the newer form of events allows it, as kube-scheduler cuts its own."""
    short = not message or len(message) <= _MESSAGE_LENGTH
    return message if short else f"{message[: _MESSAGE_LENGTH - len(_CUT)]}{_CUT}"


class EventRecorder:
    """Records the events of one component. Nothing is written unless `run` runs."""

    def __init__(
        self,
        client: Client,
        component: str,
        clock: Clock,
        *,
        host: str = "",
        instance: str = "",
        remembered: int = REMEMBERED,
    ) -> None:
        """``host`` is the node for node agents; ``instance`` names this process in events of the newer form.

        ``remembered`` bounds the events that are kept for aggregation: each takes a kilobyte and a half.
        """
        self._client = client
        self._component = component
        self._clock = clock
        self._host = host
        self._instance = instance or host or component
        self._notes: deque[RecordedEvent] = deque()
        """Events that wait to be written. An `asyncio.Queue` takes 5,000 instructions more for each."""
        self._recorded = asyncio.Event()
        self._similar: _Recent[_Similar] = _Recent(lambda: _Similar(set()), remembered)
        self._spam: _Recent[TokenBucket] = _Recent(
            lambda: TokenBucket(clock, rate=SPAM_RATE, burst=SPAM_BURST), remembered
        )
        self._counted: _Recent[_Written] = _Recent(_Written, remembered)
        self._series: _Recent[_Written] = _Recent(_Written, remembered)
        self._last_nanoseconds = 0
        self._offset = crc32(f"{component} {self._host} {self._instance}".encode()) % 1000
        self.dropped = 0
        self._on_drop: Callable[[RecordedEvent], object] = lambda _: None

    def record(
        self,
        involved: KubeObject | ObjectReference,
        type_: EventType,
        reason: str,
        message: str,
        *,
        action: str = "",
        component: str = "",
    ) -> None:
        """Record an event about ``involved`` (an object, or an `ObjectReference` to one or to a part of it).

        ``reason`` is one word in CamelCase; ``component`` is named as the source instead of the recorder's own, for a
        part that has a name of its own in Kubernetes.
        """
        regarding, now = self._reference(involved), self._clock.now()
        component = component or self._component
        note = RecordedEvent(regarding, type_, reason, shortened(message), action, now, component)
        if len(self._notes) < QUEUED:
            if not self._notes:  # otherwise the writer does not wait
                self._recorded.set()
            self._notes.append(note)
            return
        # Dropped and counted: waiting would let a slow API server stop the scheduler.
        self.dropped += 1
        self._on_drop(note)

    def listen(self, on_drop: Callable[[RecordedEvent], object]) -> None:
        """Have ``on_drop`` called for each event that is not written in the end."""
        self._on_drop = on_drop

    def _reference(self, involved: KubeObject | ObjectReference) -> ObjectReference:
        """Return a reference to ``involved``, in the version that the server has of the kind."""
        if not isinstance(involved, ObjectReference):
            return reference_to(involved, gvk=self._client.served_kind(kind_of(type(involved))))
        named = GroupVersionKind.parse(involved.api_version, involved.kind)
        gvk = self._client.served_kind(named)
        return involved if gvk == named else replace(involved, api_version=gvk.api_version, kind=gvk.kind)

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_notes())
            group.create_task(self._refresh_series())

    async def _write_notes(self) -> None:
        while True:
            while not self._notes:
                self._recorded.clear()
                await self._recorded.wait()
            note = self._notes.popleft()
            try:
                written = await (self._write_series(note) if note.action else self._write_counted(note))
            except (StatusError, ConnectionError) as error:
                # As for every recorder: an event that the server refuses (namespace going away, quota) is given up.
                _LOG.debug("event %s on %s was refused: %s", note.reason, note.regarding.name, error)
                written = False
            except Exception:
                # One odd event must not end the part that records it.
                _LOG.exception("event %s on %s was not written", note.reason, note.regarding.name)
                written = False
            if not written:
                self._on_drop(note)

    # The classic form.

    async def _write_counted(self, note: RecordedEvent) -> bool:
        """Write an event, or count it in one that is there. Return False if its source has used up its rate."""
        source = (note.regarding.kind, note.regarding.namespace, note.regarding.name, note.regarding.uid)
        alike = (source, note.component, note.regarding.field_path, note.type, note.reason)
        folded = self._is_one_of_many(alike, note)
        # After aggregation, as in client-go: repetitions within a burst still count as one source.
        if not self._spam.of(source).take():
            return False
        message = shortened(f"(combined from similar events): {note.message}") if folded else note.message
        key = alike if folded else (*alike, message)
        written = self._counted.of(key)
        if written.count:
            body = {
                "count": written.count + 1,
                "lastTimestamp": str(Time(note.at)),
                "message": message,
            }
            if await self._patch(written, body):
                written.count += 1
                return True
        event = Event(
            metadata=self._new_metadata(note),
            involved_object=note.regarding,
            reason=note.reason,
            message=message,
            source=EventSource(component=note.component, host=self._host),
            first_timestamp=Time(note.at),
            last_timestamp=Time(note.at),
            count=1,
            type=note.type,
            reporting_component=note.component,
            reporting_instance=self._host,
        )
        written.count = 1
        await self._create(event, written)
        return True

    def _is_one_of_many(self, alike: Hashable, note: RecordedEvent) -> bool:
        similar = self._similar.of(alike)
        if note.at - similar.last > SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = note.at
        similar.messages.add(note.message)
        if len(similar.messages) < SIMILAR:
            return False
        # The set stays at its limit: a source with ever new messages must not grow it.
        similar.messages.pop()
        return True

    # The newer form.

    async def _write_series(self, note: RecordedEvent) -> bool:
        written = self._series.of((note.regarding, note.type, note.reason, note.action))
        if written.count and note.at - written.last_seen <= SERIES_SECONDS:
            written.count += 1
            written.last_seen = note.at
            # The first repetition is written at once, later ones by `_refresh_series`.
            if written.count == 2:
                await self._write_series_count(written)
            return True
        event = Event(
            metadata=self._new_metadata(note),
            involved_object=note.regarding,
            reason=note.reason,
            message=note.message,
            type=note.type,
            event_time=MicroTime(note.at),
            action=note.action,
            reporting_component=note.component,
            reporting_instance=self._instance,
        )
        written.count = 1
        written.last_seen = note.at
        await self._create(event, written)
        return True

    async def _write_series_count(self, written: _Written) -> None:
        written.last_written = written.last_seen
        series = {"count": written.count, "lastObservedTime": str(MicroTime(written.last_seen))}
        if not await self._patch(written, {"series": series}):
            # The event expired on the server. The next one starts a new series.
            written.count = 0

    async def _refresh_series(self) -> None:
        while True:
            await self._clock.sleep(SERIES_SECONDS)
            for written in tuple(self._series):
                if written.count > 2 and written.last_seen > written.last_written:
                    with one_of_many(_LOG, "series of event %s", written.name):
                        await self._write_series_count(written)

    # Both.

    def _new_metadata(self, note: RecordedEvent) -> ObjectMeta:
        # Two events in one tick of the clock still need different names. Below a microsecond, which is all that the
        # clock has, each recorder has a number of its own.
        tick = int(note.at * 1_000_000) * 1000 + self._offset
        if tick <= self._last_nanoseconds:
            tick = self._last_nanoseconds + 1
        self._last_nanoseconds = tick
        namespace = note.regarding.namespace or "default"
        return ObjectMeta(name=f"{note.regarding.name}.{tick:x}", namespace=namespace)

    def _create(self, event: Event, written: _Written) -> Awaitable[bool]:
        """Create the event. One of that name that exists is this one: an earlier attempt was carried out, or a proxy
        has repeated the request."""
        written.namespace, written.name = event.metadata.namespace, event.metadata.name
        # Another name would make a second event. As in client-go, an event of another recorder in the same tick is not
        # ruled out.
        return self._sent("AlreadyExists", written, self._client.resource(EVENTS, written.namespace).create, event)

    def _patch(self, written: _Written, body: dict[str, Any]) -> Awaitable[bool]:
        """Change the event. Return False if it is not there any more."""
        patch = self._client.resource(EVENTS, written.namespace).patch
        return self._sent("NotFound", written, patch, written.name, PatchType.STRATEGIC, body)

    async def _sent(
        self, harmless: str, written: _Written, send: Callable[..., Awaitable[object]], *args: object
    ) -> bool:
        """Send a request, and again while there is no connection. Return False if it is refused for the ``harmless``
        reason.

        Raises:
            StatusError: the server has refused it for another reason.
            ConnectionError: there was no connection at any attempt.
        """
        attempt = 1
        while True:
            try:
                await send(*args)
                return True
            except StatusError as error:
                if error.reason != harmless:
                    raise
                return False
            except ConnectionError as error:
                _LOG.debug("event %s waits for a connection (%d): %s", written.name, attempt, error)
                if attempt == ATTEMPTS:
                    raise
            attempt += 1
            await self._clock.sleep(RETRY_SECONDS)
