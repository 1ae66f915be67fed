"""Time of one attempt to schedule a pod.

One pod must not hold up the event loop, which serves requests and renews leases. An attempt therefore runs in time
slices of a few milliseconds. If a plugin's search needs longer, it ends the slice with an exception: the search
continues in a thread, other pods are scheduled meanwhile, and then the attempt starts again from the beginning, on the
nodes and devices of that moment. The result of the search is cached, so the second run is short (`cathedra.offload`).

Other plugins do small pieces of work many times: for each node, or for each existing pod. A `Memo` keeps the results of
the pieces from slice to slice, and ends the slice between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import is_
from typing import Any, Generic, TypeVar

import msgspec

from cathedra.deadline import SLICE_SECONDS, Interruption, TimeSlice

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Attempt(msgspec.Struct, eq=False):
    """One attempt, from the queue to a node or a refusal, in one or several time slices."""

    monotonic: Callable[[], float]
    """Returns the monotonic time in seconds."""
    began: float = 0.0
    """Monotonic seconds of its beginning, where the duration is measured."""
    used: float = 0.0
    """Seconds that searches in the thread have taken."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    """State that plugins keep from slice to slice, by plugin name."""
    _slice: TimeSlice | None = None
    _last: Interruption | None = None

    def interrupted(self, seconds: float) -> Callable[[], bool]:
        """Return the interruption of a plugin's searches, which may take ``seconds`` in all.

        As long as there is time, it is `check`. When the time is up, searches that have not been made yet share one
        last slice, at whose end it returns True.
        """
        if self.used < seconds:
            return self.check
        if self._last is None:
            self._last = Interruption(SLICE_SECONDS, monotonic=self.monotonic)
        return self._last

    def memo(self, plugin: str) -> Memo[Any, Any]:
        """Return the memo of a plugin for this attempt."""
        found: Memo[Any, Any] | None = self.data.get(plugin)
        if found is None:
            found = self.data[plugin] = Memo()
        return found

    def check(self) -> bool:
        """Return False as long as the time slice lasts.

        Raises:
            TimeSliceOver: it is over.
        """
        if self._slice is None:
            self._slice = TimeSlice(monotonic=self.monotonic)
        return self._slice()

    def next_slice(self) -> None:
        """Begin another time slice."""
        self._slice = None


class Memo(Generic[K, T]):
    """Memo of results within an attempt, each with the objects from which it was computed."""

    def __init__(self, limit: int = 100_000) -> None:
        self._known: dict[K, tuple[tuple[object, ...], T]] = {}
        self._limit = limit

    def get(self, key: K, versions: tuple[object, ...], attempt: Attempt | None, work: Callable[[], T]) -> T:
        """Return the cached result for ``key`` if it was computed from these very objects, else that of ``work``.

        Raises:
            TimeSliceOver: the time slice of ``attempt`` is over; the cache is kept.
        """
        known = self._known.get(key)
        if known is not None and all(map(is_, known[0], versions)):
            return known[1]
        if attempt is not None:
            attempt.check()
        found = work()
        if len(self._known) >= self._limit:
            del self._known[next(iter(self._known))]
        self._known[key] = (versions, found)
        return found
