"""From the chosen node to the binding: what is held in memory, what is written, and how both are taken back.

The pod is assumed on its node at once, and plugins reserve what it needs there. The writing is a task of its own beside
the next pod's cycle. Whatever goes wrong on the way (a refusal, an error, a defect, a cancellation), every plugin is
told to let go, the assumption is forgotten, and the pod comes back to the queue (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from cathedra.client.events import EventRecorder
from cathedra.scheduler.background import Background
from cathedra.scheduler.failure import Failures
from cathedra.scheduler.framework.defects import DEFECTS, defect_status
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import Action, Change, Resource
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Status, error
from cathedra.scheduler.podgroups import PodGroupConditions
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["BindingCycle"]

STOP_SECONDS: Final = 1.0
"""So long plugins may write to take things back while the scheduler stops."""

_CANCELLED: Final = error("the binding was cancelled")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A pod on the node that was chosen for it."""

    entry: QueuedPodInfo
    pod: PodInfo
    state: CycleState
    node: str


class BindingCycle:
    """Holds pods on their nodes until they are bound, or lets go of everything."""

    def __init__(
        self,
        profile: Profile,
        cache: Cache,
        queue: SchedulingQueue,
        nominations: Nominations,
        failures: Failures,
        recorder: EventRecorder,
        background: Background,
        groups: PodGroupConditions | None = None,
    ) -> None:
        self._profile = profile
        self._cache = cache
        self._queue = queue
        self._nominations = nominations
        self._failures = failures
        self._recorder = recorder
        self._background = background
        self._groups = groups
        self.bound = 0
        """How many pods have been bound."""

    async def start(self, entry: QueuedPodInfo, state: CycleState, node: str) -> None:
        """Hold ``node`` for the pod, and have the binding written in the background."""
        attempt = _Attempt(entry, entry.info.on(node, state.taken.get(node, ())), state, node)
        self._cache.assume(attempt.pod)
        self._nominations.remove(attempt.pod.uid)
        try:
            status = self._profile.reserve(state, attempt.pod, node)
        except DEFECTS as defect:
            _LOG.exception("%s: Reserve broke", attempt.pod.key)
            status = defect_status(defect)
        if status is None:
            self._background.start(self._bind(attempt))
            return
        await self._let_go(attempt)
        if not status.rejected:
            self._failures.broke(entry, status)
            return
        diagnosis = Diagnosis(1)
        diagnosis.refuse(node, status)
        self._failures.refused(entry, diagnosis)

    async def _bind(self, attempt: _Attempt) -> None:
        """Everything that has to be written, in order."""
        status: Status | None = _CANCELLED
        try:
            status = await self._write(attempt)
        except DEFECTS as defect:
            _LOG.exception("%s: the binding cycle broke", attempt.pod.key)
            status = defect_status(defect)
        finally:
            if status is not None:
                await self._take_back(attempt, status)
        if status is None:
            self.bound += 1
            pod = attempt.pod
            message = f"Successfully assigned {pod.key} to {attempt.node}"
            self._recorder.record(pod.pod, "Normal", "Scheduled", message, action="Binding")
            if self._groups is not None:
                await self._groups.scheduled(pod.pod)

    async def _write(self, attempt: _Attempt) -> Status | None:
        pod, state, node = attempt.pod, attempt.state, attempt.node
        # From here on the pod cannot become unschedulable, so no event can concern it.
        self._queue.done(pod.uid)
        async with self._background.writing:
            status = await self._profile.pre_bind(state, pod, node)
        if status is None:
            status = await self._profile.settle(state, pod, node)
        if status is None:
            async with self._background.writing:
                status = await self._profile.bind(state, pod, node)
        return status

    async def _take_back(self, attempt: _Attempt, status: Status) -> None:
        try:
            await self._let_go(attempt)
        finally:
            # To others this looks as if a pod had been deleted: what it held is free.
            self._queue.move(Change(Resource.ASSIGNED_POD, Action.DELETE, attempt.pod.pod, None))
            self._failures.broke(attempt.entry, status)

    async def _let_go(self, attempt: _Attempt) -> None:
        """Have every plugin unreserve, and forget the assumption, whatever breaks on the way."""
        task = asyncio.current_task()
        stopping = task is not None and task.cancelling() > 0
        try:
            async with asyncio.timeout(STOP_SECONDS if stopping else None):
                await self._profile.unreserve(attempt.state, attempt.pod, attempt.node)
        except TimeoutError:
            _LOG.warning("%s: not everything could be taken back before the end", attempt.pod.key)
        finally:
            self._cache.forget(attempt.pod.uid)
