"""Binding cycle: from the chosen node to the binding, and back if it fails.

The pod is assumed on its node at once, and plugins reserve what it needs there. The writes are a task of their own
beside the next pod's cycle. After any failure (a refusal, an error, a defect, a cancellation) every plugin unreserves,
the assumption is dropped, and the pod returns to the queue (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from cathedra.client.events import EventRecorder
from cathedra.scheduler.background import STOP_SECONDS
from cathedra.scheduler.failure import Failures, SharedState
from cathedra.scheduler.framework.diagnosis import Diagnosis, UnschedulablePod
from cathedra.scheduler.framework.events import Action, EventResource
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import DEFECTS, Code, Status, defect_status, error
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.pod_info import PodInfo

_CANCELLED: Final = error("the binding was cancelled")
_LOG = logging.getLogger(__name__)


class HeldPod(msgspec.Struct, frozen=True, eq=False):
    """A pod on the node that was chosen for it."""

    entry: QueuedPodInfo
    pod: PodInfo
    state: CycleState
    node: str


class BindingCycle:
    """Keeps pods assumed on their nodes until they are bound, or releases everything."""

    def __init__(
        self,
        profile: Profile,
        shared: SharedState,
        failures: Failures,
        recorder: EventRecorder,
        on_bound: Callable[[QueuedPodInfo], None] | None = None,
    ) -> None:
        """``on_bound`` is called for every pod whose binding is written."""
        self._profile = profile
        self._cache = shared.cache
        self._queue = shared.queue
        self._nominations = shared.nominations
        self._failures = failures
        self._recorder = recorder
        self._background = shared.background
        self._on_bound = on_bound
        self.bound = 0
        """Number of bound pods."""

    async def start(self, entry: QueuedPodInfo, state: CycleState, node: str) -> None:
        """Hold ``node`` for the pod, and have the binding written in the background."""
        held = await self.hold(entry, state, node)
        if isinstance(held, HeldPod):
            self.write(held)
        elif isinstance(held, Diagnosis):
            self._failures.refused(entry, UnschedulablePod(held))
        else:
            self._failures.broke(entry, held)

    async def hold(self, entry: QueuedPodInfo, state: CycleState, node: str) -> HeldPod | Diagnosis | Status:
        """Assume the pod on ``node`` and reserve what it needs there. Return the refusal or error; then nothing is
        reserved."""
        # The pod is assumed before Reserve: if Reserve fails, `release` drops the assumption, while a pod that was
        # reserved but not assumed would let the next cycle use its room.
        held = HeldPod(entry, entry.info.on(node, state.taken.get(node, ())), state, node)
        self._cache.assume(held.pod)
        # An assumed pod is counted on its node. With a nomination it would be counted twice.
        self._nominations.remove(held.pod.uid)
        try:
            status = self._profile.reserve(state, held.pod, node)
        except DEFECTS as defect:
            status = defect_status(defect, _LOG, "%s: Reserve broke", held.pod.key)
        if status is None:
            return held
        await self.release(held)
        if not status.rejected:
            return status
        return _refused_by(node, status)

    def write(self, held: HeldPod) -> None:
        """Have the binding of a pod that is held written in the background."""
        # From here on the pod cannot become unschedulable, so no event can concern it.
        self._queue.done(held.pod.uid)
        self._background.start(self._bind(held), held)

    async def _bind(self, held: HeldPod) -> None:
        """Make all writes of a binding, in order."""
        pod, state, node = held.pod, held.state, held.node
        # A cancellation leaves `status` at this value, so the finally clause takes everything back then as well.
        status: Status | None = _CANCELLED
        try:
            failure: Status | None = None
            waits = False
            with await self._background.writing.place():
                if self._profile.pre_bind_pre_flight(state, pod, node):
                    failure = await self._profile.pre_bind(state, pod, node)
                    waits = failure is None and self._profile.has_to_settle(state, pod)
                if failure is None and not waits:
                    failure = await self._written(held)
            if waits:
                # Waiting for devices may take minutes, so it happens outside the limit of concurrent writes.
                failure = await self._profile.settle(state, pod, node)
                if failure is None:
                    with await self._background.writing.place():
                        failure = await self._written(held)
            if failure is not None and self._background.is_spared(held):
                # The cause of the failure, such as the deletion of the pod, is on its way to other components, which
                # may need to see the pod's reservations: claim controllers of old releases free a claim only where they
                # end its reservation.
                await asyncio.sleep(0)
            status = failure
        except DEFECTS as defect:
            status = defect_status(defect, _LOG, "%s: the binding cycle broke", pod.key)
        finally:
            if status is not None:
                await self._take_back(held, status)
        if status is None:
            self.bound += 1
            if self._on_bound is not None:
                self._on_bound(held.entry)
            message = f"Successfully assigned {pod.key} to {node}"
            self._recorder.record(pod.pod, "Normal", "Scheduled", message, action="Binding")
            await self._profile.post_bind(state, pod, node)

    def _written(self, held: HeldPod) -> Coroutine[Any, Any, Status | None]:
        """Write the binding itself."""
        # A bound pod runs, so its devices must not be released. Therefore the response is awaited even if the task is
        # cancelled.
        self._background.spare(held)
        return self._profile.bind(held.state, held.pod, held.node)

    async def _take_back(self, held: HeldPod, status: Status) -> None:
        try:
            await self.release(held)
        finally:
            # For waiting pods this equals the deletion of a pod: its resources are free.
            self._queue.move(EventResource.ASSIGNED_POD, Action.DELETE, held.pod.pod, None)
            if self._background.is_closing:
                # This scheduler tries no pod again; the next one finds it as it is.
                self._queue.done(held.pod.uid)
            elif status.code is Code.PENDING:
                self._failures.held_back(held.entry, _refused_by(held.node, status).message())
            else:
                self._failures.broke(held.entry, status)

    async def release(self, held: HeldPod) -> None:
        """Call Unreserve of every plugin and drop the assumption, whatever fails on the way."""
        task = asyncio.current_task()
        # A task that is being cancelled gets one second to release its devices; otherwise a server that does not
        # respond would keep the process from ending.
        stopping = task is not None and task.cancelling() > 0
        try:
            async with asyncio.timeout(STOP_SECONDS if stopping else None):
                await self._profile.unreserve(held.state, held.pod, held.node)
        except TimeoutError:
            _LOG.warning("%s: not everything could be taken back before the end", held.pod.key)
        finally:
            # In a finally clause, because an assumption that stays would block the room of the node until the scheduler
            # restarts.
            self._cache.forget(held.pod.uid)


def _refused_by(node: str, status: Status) -> Diagnosis:
    diagnosis = Diagnosis(1)
    diagnosis.refuse(node, status)
    return diagnosis
