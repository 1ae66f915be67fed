"""The scheduler's loop: take the next pod, find its node, bind it beside the next pod's search.

One pod is searched for at a time, on the event loop and without giving way, so that every decision sees one state of
the world. What was decided is held in memory at once (the pod assumed on its node, its devices in flight), and written
by a task of its own (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

import asyncio
import logging
from random import Random

from cathedra.api.gates import FeatureGates
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS
from cathedra.clock import Clock
from cathedra.scheduler.background import Background
from cathedra.scheduler.bindingcycle import BindingCycle
from cathedra.scheduler.composition import compose
from cathedra.scheduler.eventhandlers import EventHandlers
from cathedra.scheduler.failure import Failures
from cathedra.scheduler.framework.defects import DEFECTS, defect_status
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.gatednotices import GatedPodNotices
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["Scheduler"]

WRITERS = 64
"""So many bindings and status patches may be under way at once."""

_LOG = logging.getLogger(__name__)


class Scheduler:
    """Gives pods their nodes and claims their devices. `run` until cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        gates: FeatureGates,
        informers: SharedInformers | None = None,
        name: str = "default-scheduler",
    ) -> None:
        """``informers`` are run by their maker; without any the scheduler makes and runs its own."""
        self._clock = clock
        self._own_informers = informers is None
        self._informers = informers or SharedInformers(client, clock)
        self._recorder = EventRecorder(client, name, clock)
        self._cache = Cache()
        self._background = Background(WRITERS)
        self._nominations = Nominations()
        self._profile, self._listeners = compose(
            client,
            self._informers,
            self._recorder,
            clock=clock,
            random=random,
            gates=gates,
            name=name,
            nominations=self._nominations,
        )
        self._gated = GatedPodNotices(clock, self._recorder)
        self._queue = SchedulingQueue(
            clock, self._profile.pre_enqueue, self._profile.registrations, on_gated=self._gated.on_gated
        )
        self._search = NodeSearch(self._profile, self._nominations, random)
        self._handlers = EventHandlers(self._cache, self._queue, self._nominations, name)
        self._pods = self._informers.of(PODS)
        self._failures = Failures(
            client, clock, self._queue, self._pods.store, self._recorder, self._background, self._nominations
        )
        self._binding = BindingCycle(
            self._profile,
            self._cache,
            self._queue,
            self._nominations,
            self._failures,
            self._recorder,
            self._background,
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        for listener in self._listeners:
            listener.listen(self._informers, self._queue.move)
        self._handlers.listen(self._informers)
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._recorder.run())]
            if self._own_informers:
                helpers.append(group.create_task(self._informers.run()))
            await self._informers.wait_synced()
            helpers.append(group.create_task(self._queue.run()))
            helpers.append(group.create_task(self._gated.run()))
            async with self._background:
                while True:
                    await self._attempt(await self._queue.pop())
                    # The searches of a full queue would otherwise never let the bindings run.
                    await asyncio.sleep(0)

    def statistics(self) -> dict[str, int]:
        """Pods by area, pods counted on nodes and assumed there, nominations, bindings under way and done.

        Plugins add what they hold.
        """
        return {
            **self._queue.statistics(),
            **self._profile.statistics(),
            **self._cache.statistics(),
            "nominated": len(self._nominations),
            "binding": self._background.running,
            "bound": self._binding.bound,
        }

    async def _attempt(self, entry: QueuedPodInfo) -> None:
        try:
            await self._schedule_one(entry)
        except DEFECTS as defect:
            # One pod that hits a defect must not stop the others; it is reported and tried again like any failure.
            _LOG.exception("%s: the scheduling cycle broke", entry.info.key)
            self._failures.broke(entry, defect_status(defect))

    async def _schedule_one(self, entry: QueuedPodInfo) -> None:
        pod = entry.info
        if self._is_pointless(pod):
            self._queue.done(pod.uid)
            return
        state = CycleState(self._cache.snapshot())
        outcome = self._search.find(state, pod, pod.pod.status.nominated_node_name)
        if isinstance(outcome, SelectedNode):
            await self._binding.start(entry, state, outcome.node)
        elif isinstance(outcome, Diagnosis):
            await self._refuse(entry, state, outcome)
        else:
            self._failures.broke(entry, outcome)

    def _is_pointless(self, pod: PodInfo) -> bool:
        if pod.pod.metadata.deletion_timestamp is not None:
            message = f"skip schedule deleting pod: {pod.key}"
            self._recorder.record(pod.pod, "Warning", "FailedScheduling", message, action="Scheduling")
            return True
        return self._cache.is_assumed(pod.uid)

    async def _refuse(self, entry: QueuedPodInfo, state: CycleState, diagnosis: Diagnosis) -> None:
        if not diagnosis.nodes:
            self._failures.refused(entry, diagnosis, "no nodes available to schedule pods")
            return
        message, nomination = await self._profile.post_filter(state, entry.info, diagnosis)
        diagnosis.postfilter_message = message
        nominated = nomination.node if nomination is not None else None
        self._failures.refused(entry, diagnosis, nominated=nominated)
