"""A pod in the queue, with what is remembered of its attempts."""

from __future__ import annotations

import msgspec

from cathedra.scheduler.state.pod_info import PodInfo


class QueuedPodInfo(msgspec.Struct):
    """A waiting pod. Belongs to the queue, or to the cycle that popped it."""

    info: PodInfo
    added: float
    """Monotonic seconds of its last entry into the queue: the order among equal priorities."""
    attempts: int = 0
    """Number of attempts so far."""
    unschedulable_count: int = 0
    """Number of refusals, errors not counted."""
    errors: int = 0
    """Number of consecutive errors."""
    refusing_plugins: frozenset[str] = frozenset()
    """The plugins for whose events the pod waits."""
    is_pending: bool = False
    """True if some of them wait for something outside the scheduler."""
    first_active: int = 0
    """Larger for a pod that was let into the queue for the first time later; 0 for one that never was."""
    active_since: float = 0.0
    """Monotonic seconds of that first time; the wait of the pod is measured from it."""
    gated_by: str = ""
    """The plugin that keeps it out of the active queue."""
    area_version: int = 0
    """Counts moves; an item in a heap with another number is stale."""

    @property
    def uid(self) -> str:
        """Return the UID of the pod."""
        return self.info.uid


class Backoff(msgspec.Struct, frozen=True):
    """Back-off of a refused pod before it is tried again (docs/spec/scheduling.md §1)."""

    initial: float = 1.0
    """Seconds after the first refusal."""
    maximum: float = 10.0
    """Seconds at most; every refusal doubles."""

    def seconds(self, entry: QueuedPodInfo) -> float:
        """Return the seconds for which ``entry`` is to pause after its failures."""
        count = entry.errors or entry.unschedulable_count
        if count == 0:
            return 0.0
        return min(self.initial * 2.0 ** min(count - 1, 32), self.maximum)
