"""The pod garbage collector: pods without a node, and ended pods that are too many.

All other parts wait for a pod's node to end it; where there is no node any more, this controller does
(docs/spec/controllers.md §10).
"""

from __future__ import annotations

import contextlib
from typing import Final

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.resources import NODES, PODS
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.conditions import with_condition
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.pods import is_terminal

__all__ = ["PodGarbageCollector"]

PERIOD: Final = 20.0
QUARANTINE: Final = 40.0
"""Seconds for which a node has to be missing before its pods are orphans."""
TERMINATED_THRESHOLD: Final = 12500
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGarbageCollector:
    """Looks around every 20 seconds."""

    name = "pod-garbage-collector-controller"

    def __init__(self, context: ControllerContext, *, terminated_threshold: int = TERMINATED_THRESHOLD) -> None:
        self._client = context.client
        self._clock = context.clock
        self._threshold = terminated_threshold
        self._pods = context.informers.of(PODS)
        self._nodes = context.informers.of(NODES)
        self._missing_since: dict[str, float] = {}
        self._confirmed_gone: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._pods.wait_synced()
        await self._nodes.wait_synced()
        while True:
            # After a lost connection the next round starts from scratch anyway.
            with contextlib.suppress(ConnectionError):
                await self._look_around()
            await self._clock.sleep(PERIOD)

    async def _look_around(self) -> None:
        await self._collect_terminated()
        await self._note_missing_nodes()
        for pod in self._pods.store.list():
            if pod.spec.node_name in self._confirmed_gone:
                await self._end(pod, "DeletionByPodGC", "PodGC: node no longer exists")
            elif pod.metadata.deletion_timestamp is not None and (
                not pod.spec.node_name or self._is_out_of_service(pod)
            ):
                await self._end(pod, "", "")

    async def _collect_terminated(self) -> None:
        ended = [pod for pod in self._pods.store if is_terminal(pod) and pod.metadata.deletion_timestamp is None]
        surplus = len(ended) - self._threshold
        if self._threshold <= 0 or surplus <= 0:
            return
        ended.sort(key=lambda pod: (not _was_evicted(pod), pod.metadata.creation_timestamp or Time(0)))
        for pod in ended[:surplus]:
            await self._delete(pod)

    async def _note_missing_nodes(self) -> None:
        now = self._clock.monotonic()
        used = {pod.spec.node_name for pod in self._pods.store if pod.spec.node_name}
        missing = {name for name in used if self._nodes.store.get("", name) is None}
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        self._confirmed_gone = set()
        for name, since in self._missing_since.items():
            if now - since >= QUARANTINE and await self._is_gone(name):
                self._confirmed_gone.add(name)

    async def _is_gone(self, node: str) -> bool:
        try:
            await self._client.resource(NODES).get(node)
        except StatusError as error:
            return error.is_not_found
        return False

    def _is_out_of_service(self, pod: Pod) -> bool:
        node = self._nodes.store.get("", pod.spec.node_name)
        return node is not None and not is_node_ready(node) and any(t.key == OUT_OF_SERVICE for t in node.spec.taints)

    async def _end(self, pod: Pod, reason: str, message: str) -> None:
        """Fail the pod if it has not ended, and delete it; its claims follow its phase."""
        resource = self._client.resource(PODS, pod.metadata.namespace)
        if not is_terminal(pod):
            failed = replace(pod, status=replace(pod.status, phase="Failed"))
            if reason:
                now = Time(self._clock.now())
                disrupted = PodCondition(
                    type="DisruptionTarget", status="True", last_transition_time=now, reason=reason, message=message
                )
                conditions = with_condition(failed.status.conditions, disrupted)
                failed = replace(failed, status=replace(failed.status, conditions=conditions))
            try:
                await resource.update_status(failed)
            except StatusError as error:
                if not error.is_not_found:
                    return
        await self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        try:
            await self._client.resource(PODS, pod.metadata.namespace).delete(
                pod.metadata.name, grace_period_seconds=0, uid=pod.metadata.uid
            )
        except StatusError:
            # Gone, replaced or refused: the next round sees which.
            return


def _was_evicted(pod: Pod) -> bool:
    """Whether the node ended the pod for want of something; such pods are the first to go."""
    return pod.status.phase == "Failed" and pod.status.reason == "Evicted"
