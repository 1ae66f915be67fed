"""Events of the advisor: each reason once for an object, and a bounded number in a minute.

What was written is read back by an informer on the advisor's own events. A process that starts therefore repeats
nothing, and a reason whose event has expired on the server while the object still waits is written again.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from cathedra.advisor.sentences import shape_of
from cathedra.api.core.core_v1 import Event, ObjectReference
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.client.backoff import TokenBucket
from cathedra.client.events import EventRecorder, RecordedEvent, shortened
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import EVENTS
from cathedra.clock import Clock

COMPONENT: Final = "cathedra-advisor"
EXPLAINED: Final = "DevicesExplained"
"""Reason of events on what waits or cannot be used."""
WOULD_FIT: Final = "PodWouldFit"
"""Reason of events on pods that the model places and the scheduler does not."""
SETTLE_SECONDS: Final = 30.0
"""An object gets no second event of one reason sooner: what flaps is reported with its last state."""
MOST: Final = 20_000
"""Largest number of objects whose last event is remembered until it is read back."""

_Key = tuple[str, str]
"""UID of an object, and the reason of its event."""


class _WrittenEvent(msgspec.Struct, frozen=True):
    shape: str
    at: float
    """Wall-clock time, in seconds."""
    name: str = ""
    """Name of the event; "" until it has been read back."""
    before: _WrittenEvent | None = None
    """The one that the object has until this one is written."""


class AdvisorEvents:
    """Decides which events are written. `EventRecorder.run` of ``recorder`` writes them."""

    def __init__(
        self,
        recorder: EventRecorder,
        informers: SharedInformers,
        clock: Clock,
        *,
        per_minute: int,
        enabled: bool = True,
    ) -> None:
        """``per_minute``: events in a minute at most; unless ``enabled``, none are written."""
        self._recorder, self._clock, self._enabled = recorder, clock, enabled
        recorder.listen(self._drop)
        self._bucket = TokenBucket(clock, rate=per_minute / 60, burst=per_minute)
        self._written: dict[_Key, _WrittenEvent] = {}
        self._deferred: dict[_Key, str] = {}
        """Events that wait to be written."""
        self._dropped: dict[_Key, float] = {}
        """Wall-clock times at which events were refused by the server, for `SETTLE_SECONDS`."""
        self.counts: dict[str, int] = {"written": 0, "repeated": 0, "deferred": 0}
        """Reports by what became of them."""
        if enabled:
            own = informers.of(EVENTS, field_selector=f"reportingComponent={COMPONENT}")
            own.set_transform(_bare)
            own.add_handler(self._read, lambda _, event: self._read(event), self._expired)

    @property
    def remembered(self) -> int:
        """The number of events that are remembered, or wait to be written."""
        return len(self._written) + len(self._deferred)

    def report(self, about: KubeObject, reason: str, message: str) -> bool:
        """Write an event, unless the object has one of that reason with the same message.

        Return False if it must wait: the caller reports again later, with what is true then.
        """
        if not self._enabled:
            return True
        message = shortened(message)
        key, now = (about.metadata.uid, reason), self._clock.now()
        shape = shape_of(message)
        last = self._written.get(key)
        if last is not None and last.shape == shape:
            self.counts["repeated"] += 1
            return True
        last_try = max(last.at if last is not None else -math.inf, self._dropped.get(key, -math.inf))
        if now - last_try < SETTLE_SECONDS or not self._bucket.take():
            # Counted once, not with each attempt.
            self.counts["deferred"] += self._deferred.get(key) != shape
            self._deferred[key] = shape
            return False
        self._deferred.pop(key, None)
        if len(self._written) >= MOST:
            # The oldest one: at worst its event is written once more.
            del self._written[next(iter(self._written))]
        before = msgspec.structs.replace(last, before=None) if last is not None else None
        self._written[key] = _WrittenEvent(shape, now, before=before)
        self.counts["written"] += 1
        self._recorder.record(about, "Warning", reason, message)
        return True

    def _drop(self, event: RecordedEvent) -> None:
        """Forget an event that was not written: the object still has the one before, or none."""
        key = (event.regarding.uid, event.reason)
        given = self._written.get(key)
        if given is None or given.name or given.shape != shape_of(event.message):
            return
        del self._written[key]
        if given.before is not None:
            self._written[key] = given.before
        now = self._clock.now()
        # Those of objects that are not reported any longer must not accumulate.
        self._dropped = {one: at for one, at in self._dropped.items() if now - at < SETTLE_SECONDS}
        self._dropped[key] = now

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted object."""
        for reason in (EXPLAINED, WOULD_FIT):
            self._written.pop((uid, reason), None)
            self._deferred.pop((uid, reason), None)
            self._dropped.pop((uid, reason), None)

    def _read(self, event: Event) -> None:
        key = (event.involved_object.uid, event.reason)
        at = event.last_timestamp.timestamp if event.last_timestamp is not None else 0.0
        known = self._written.get(key)
        # Timestamps have whole seconds. The event that was written last wins, though it may carry the same second.
        if known is not None and not known.name and known.shape != shape_of(event.message):
            return
        if known is None or at >= known.at - 1:
            self._written[key] = _WrittenEvent(shape_of(event.message), at, event.metadata.name)

    def _expired(self, event: Event) -> None:
        key = (event.involved_object.uid, event.reason)
        known = self._written.get(key)
        if known is not None and known.name == event.metadata.name:
            del self._written[key]


def _bare(event: Event) -> Event:
    """Return what `AdvisorEvents` reads of an event. A whole event takes three times as much memory.

    Events outlive their objects by up to an hour. With pods that come and go, they are what grows in an advisor.
    """
    metadata = event.metadata
    return Event(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        ),
        involved_object=ObjectReference(uid=event.involved_object.uid),
        reason=event.reason,
        message=event.message,
        last_timestamp=event.last_timestamp,
    )
