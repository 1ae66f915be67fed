"""Failed attempts: the pod returns to the queue, with an event and a condition.

The texts are kube-scheduler's, so that users and tools recognize them (docs/spec/scheduling.md §16).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import StatusError
from cathedra.api.struct import Time
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.resources import PODS
from cathedra.client.store import Store
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.scheduler.background import Background
from cathedra.scheduler.framework.diagnosis import UnschedulablePod
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.conditions import find_condition

LONGEST_NOTE = 1024
"""Largest number of bytes in the message of an event."""

_LOG = logging.getLogger(__name__)


class SharedState(msgspec.Struct, frozen=True, eq=False):
    """State of one scheduler that the cycles of all its profiles share."""

    cache: Cache
    queue: SchedulingQueue
    nominations: Nominations
    background: Background


class Failures:
    """Returns pods to the queue after a failed attempt, and reports the failure."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pods: Store[Pod],
        shared: SharedState,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._clock = clock
        self._queue = shared.queue
        self._pods = pods
        self._recorder = recorder
        self._background = shared.background
        self._nominations = shared.nominations

    def refused(self, entry: QueuedPodInfo, refused: UnschedulablePod) -> None:
        """No node will do; the plugins of the diagnosis decide what wakes the pod."""
        diagnosis = refused.diagnosis
        if self._put_back(entry, diagnosis.unschedulable_plugins, diagnosis.pending_plugins, refused.nominated):
            self._tell(entry, FailureReport("Unschedulable", refused.message, refused.nominated))

    def held_back(
        self, entry: QueuedPodInfo, message: str, nominated: str | None = None, plugins: Iterable[str] = ()
    ) -> None:
        """Put back and report a pod that could have a node while others (its PodGroup, a driver) are not ready. It is
        woken by events for ``plugins``, which refused the others; without any it is tried again after its back-off."""
        if self._put_back(entry, plugins, (), nominated):
            self._tell(entry, FailureReport("Unschedulable", message, nominated))

    def broke(self, entry: QueuedPodInfo, status: Status) -> None:
        """Handle an error; the pod is tried again after its back-off."""
        _LOG.warning("%s: %s", entry.info.key, status.message)
        if self._put_back(entry, (), (), None):
            self._tell(entry, FailureReport("SchedulerError", status.message, None))

    def _put_back(
        self, entry: QueuedPodInfo, plugins: Iterable[str], pending: Iterable[str], nominated: str | None
    ) -> bool:
        """Return True if the pod waits again; False if it was deleted or has a node after all.

        Without a new nomination it keeps the one in its status.
        """
        # The informer's version, because the pod may have changed during the attempt; its update was not applied to an
        # entry in flight.
        pod = self._pods.get(entry.info.namespace, entry.info.name)
        if pod is None or pod.metadata.uid != entry.uid or pod.spec.node_name:
            self._queue.done(entry.uid)
            return False
        entry.info = PodInfo(pod)
        self._queue.put_back(entry, plugins, pending)
        self._nominations.set(entry.info, self._nominations.of(entry.info) if nominated is None else nominated)
        return True

    def _tell(self, entry: QueuedPodInfo, report: FailureReport) -> None:
        pod = entry.info.pod
        self._recorder.record(pod, "Warning", "FailedScheduling", shortened(report.message), action="Scheduling")
        patch = report.patch(pod, self._clock.now())
        if patch is not None:
            # Not awaited: the next pod need not wait for the condition of this one.
            self._background.start(self._patch_status(pod, patch))

    async def _patch_status(self, pod: Pod, patch: JSONObject) -> None:
        with await self._background.writing.place():
            try:
                pods = self._client.resource(PODS, pod.metadata.namespace)
                await pods.patch(pod.metadata.name, PatchType.STRATEGIC, patch, "status")
            except (StatusError, ConnectionError) as failure:
                # The pod may be gone, or another client has written: the next attempt writes its condition again.
                _LOG.info("%s/%s: status not written: %s", pod.metadata.namespace, pod.metadata.name, failure)


class FailureReport:
    """The reason why a pod has no node, for its condition PodScheduled."""

    __slots__ = ("message", "nominated", "reason")

    def __init__(self, reason: str, message: str, nominated: str | None) -> None:
        self.reason = reason
        self.message = message
        self.nominated = nominated
        """The node being cleared for the pod; "" takes an older nomination back; None leaves it."""

    def patch(self, pod: Pod, now: float) -> JSONObject | None:
        """Return the patch of the pod's status, or None if it already has this condition."""
        old = find_condition(pod.status.conditions, "PodScheduled")
        status: JSONObject = {}
        # An equal condition is not written again. Otherwise every attempt of thousands of pending pods would be a
        # write, and each write an event that is judged.
        if not self._said_by(old):
            since = old.last_transition_time if old is not None and old.status == "False" else Time(now)
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": str(since),
                    "reason": self.reason,
                    "message": self.message,
                    "observedGeneration": pod.metadata.generation,
                }
            ]
        if self.nominated is not None and self.nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = self.nominated or None
        return {"metadata": {"uid": pod.metadata.uid}, "status": status} if status else None

    def _said_by(self, condition: PodCondition | None) -> bool:
        return condition is not None and (condition.status, condition.reason, condition.message) == (
            "False",
            self.reason,
            self.message,
        )


def shortened(message: str) -> str:
    """``message`` cut to the length an event may have, with a sign that it was cut."""
    # The API server counts bytes. Cutting bytes may split a character, which `errors="ignore"` drops.
    data = message.encode()
    if len(data) <= LONGEST_NOTE:
        return message
    return data[: LONGEST_NOTE - len(" ...")].decode(errors="ignore") + " ..."
