"""Pods that a plugin keeps out of the queue for long are told why.

kube-scheduler says nothing about such a pod: no event, no condition. That is right for the short time in which a claim
made from a template does not exist yet, and leaves users alone with a pod whose claim does not come. So a pod that is
still kept out after a while gets the event that an attempt would have got (docs/deviations.md). Its condition stays as
it is, because autoscalers act on that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.client.events import EventRecorder
from cathedra.clock import Clock
from cathedra.scheduler.plugins.gates import SchedulingGates
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo

__all__ = ["PATIENCE_SECONDS", "GatedPodNotices"]

PATIENCE_SECONDS: Final = 3.0
"""How long a pod is kept out before it is told."""


class GatedPodNotices:
    """Watches pods that were kept out; `run` until cancelled."""

    def __init__(self, clock: Clock, recorder_of: Callable[[Pod], EventRecorder]) -> None:
        self._clock = clock
        self._recorder_of = recorder_of
        self._waiting: deque[tuple[float, QueuedPodInfo, int]] = deque()
        self._arrived = asyncio.Event()

    def on_gated(self, entry: QueuedPodInfo) -> None:
        """A plugin has refused to let the pod into the queue."""
        # Scheduling gates are the user's own wish, and the API server shows them in the pod's condition.
        if entry.gated_by == SchedulingGates.name:
            return
        self._waiting.append((self._clock.monotonic() + PATIENCE_SECONDS, entry, entry.area_version))
        self._arrived.set()

    async def run(self) -> None:
        """Tell those that are still kept out when their time has come."""
        while True:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            due, entry, version = self._waiting.popleft()
            await self._clock.sleep(max(due - self._clock.monotonic(), 0.0))
            if entry.area_version == version and entry.gated_by:
                message = entry.gated_message
                self._recorder_of(entry.info.pod).record(
                    entry.info.pod, "Warning", "FailedScheduling", message, action="Scheduling"
                )
