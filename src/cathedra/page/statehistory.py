"""States of the last hour, with which the page explains an earlier moment.

The present state is kept whole, and of each change the objects as they were before. A state of an earlier moment is the
present with all later changes taken back.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Event
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceSlice
from cathedra.insight.reading.state import ClusterState, Key
from cathedra.page.history import KEPT_SECONDS

MOST_OBJECTS: Final = 200_000
"""Former objects that are kept, where a slice counts as its devices; beyond, the oldest changes are dropped before
their hour is over."""

_Former = Mapping[type[KubeObject], Mapping[Key, KubeObject | None]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
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
        self._steps: deque[_Step] = deque()
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
            step = _Step(state.now or 0.0, former, dataclasses.replace(self._present, objects={}, followed=None))
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
