"""Pods that were to be disrupted and were not: their condition DisruptionTarget ends after two minutes.

Who disrupts a pod writes the condition first and deletes the pod then. Where no deletion followed, the condition would
mislead for ever: those who count failures of jobs, and people (docs/spec/controllers.md §11).
"""

from __future__ import annotations

import logging
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.struct import Time
from cathedra.client.objects import ObjectKey, key_of
from cathedra.client.resources import PODS
from cathedra.client.transport import PatchType
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.pods import is_terminal

__all__ = ["StaleDisruptions"]

STALE_SECONDS: Final = 120.0
_BY_KUBELET: Final = "TerminationByKubelet"
"""A node agent may take arbitrarily long to end a pod; its condition stays."""
_LOG = logging.getLogger(__name__)


class StaleDisruptions:
    """Watches pods for the disruption controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._pods = context.informers.of(PODS)
        self._pods.add_handler(on_add=self._changed, on_update=self._updated)

    async def run(self) -> None:
        """Work until cancelled."""
        await run_workers(self._queue, self._reconcile)

    def _updated(self, old: Pod, pod: Pod) -> None:
        if old.status.conditions is not pod.status.conditions:
            self._changed(pod)

    def _changed(self, pod: Pod) -> None:
        if _since(pod) is not None:
            self._queue.add(key_of(pod))

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(*key)
        since = _since(pod) if pod is not None else None
        if pod is None or since is None:
            return None
        wait = since + STALE_SECONDS - self._clock.now()
        if wait > 0:
            return wait
        condition = {"type": "DisruptionTarget", "status": "False", "lastTransitionTime": str(Time(self._clock.now()))}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.resource(PODS, key.namespace).patch(key.name, PatchType.STRATEGIC, patch, "status")
        except StatusError as refusal:
            if not refusal.is_not_found:
                raise
            _LOG.info("pod %s/%s is gone already", key.namespace, key.name)
        return None


def _since(pod: Pod) -> float | None:
    """Since when the pod, which is not being deleted, is about to be disrupted (epoch seconds); None if it is not."""
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    if condition is None or pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    if condition.status != "True" or condition.reason == _BY_KUBELET:
        return None
    return condition.last_transition_time.timestamp if condition.last_transition_time is not None else 0.0
