"""Events that happen while a pod is being tried.

A cycle looks at a snapshot. An event between the snapshot and the pod's return to the queue must be judged when the pod
returns, or the pod would sleep through the change that it waits for. One shared log serves all pods that are in flight:
each remembers where in the log it left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from cathedra.scheduler.framework.events import ClusterEvent

__all__ = ["InFlight"]


class InFlight:
    """Pods that are being tried, and the events since the oldest of them left the queue."""

    def __init__(self) -> None:
        self.left_at: dict[str, int] = {}
        """The pods, and where in the log each of them left."""
        self._log: deque[ClusterEvent] = deque()
        self._first = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self.left_at

    def __len__(self) -> int:
        return len(self.left_at)

    def start(self, uid: str) -> None:
        """A pod leaves the queue to be tried."""
        self.left_at[uid] = self._first + len(self._log)

    def record(self, change: ClusterEvent) -> None:
        """Keep an event for those that are being tried; nothing is kept if there are none."""
        if self.left_at:
            self._log.append(change)

    def since(self, uid: str) -> Iterator[ClusterEvent]:
        """Events since the pod left."""
        return islice(self._log, self.left_at[uid] - self._first, None)

    def done(self, uid: str) -> None:
        """The pod is no longer being tried; events that no other pod in flight needs are dropped."""
        if self.left_at.pop(uid, None) is None:
            return
        if not self.left_at:
            self._first += len(self._log)
            self._log.clear()
            return
        # Pods leave in the order of the log, so the first one in the dict is the oldest.
        oldest = next(iter(self.left_at.values()))
        while self._first < oldest:
            self._log.popleft()
            self._first += 1
