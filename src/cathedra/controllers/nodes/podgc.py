"""The pod garbage collector: deletes pods that no node will end, and finished pods above a threshold.

A node agent confirms the deletion of its pods. Where the node is gone, or there never was one, this controller deletes
them instead; their claims are freed because it sets their phase first (docs/spec/controllers.md §10).
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import Enum
from typing import Final

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, to_dict
from cathedra.client.objects import key_of
from cathedra.client.resources import NODES, PODS
from cathedra.client.transport import PatchType
from cathedra.client.workqueue import one_of_many
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.nodes.lifecycle import BY_NODE, by_node, same_node
from cathedra.semantics.conditions import find_condition, keep_transition_time
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.pods import is_terminal

_LOG = logging.getLogger(__name__)

PERIOD: Final = 20.0
QUARANTINE: Final = 40.0
"""Seconds for which a node has to be missing before its pods are orphans."""
TERMINATED_THRESHOLD: Final = 12500
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_BY_ENDING: Final = "pod-ending"
"""Index of the pods that have ended (`_TERMINATED`) and that are being deleted (`_DELETED`)."""
_TERMINATED: Final = "terminated"
_DELETED: Final = "deleted"


class Collected(Enum):
    """Reason for deleting a pod; the label ``reason`` of the metrics."""

    ORPHANED = "orphaned"
    OUT_OF_SERVICE = "out-of-service"
    TERMINATED = "terminated"
    UNSCHEDULED = "unscheduled"
    INTERRUPTED = "interrupted"
    """Its grace period is zero and nothing holds it, so an API server ended while it deleted the pod."""


class PodGarbageCollector:
    """Checks every 20 seconds for pods that have ended, are being deleted, or whose node is gone."""

    name = "pod-garbage-collector-controller"

    def __init__(self, context: ControllerContext, *, terminated_threshold: int = TERMINATED_THRESHOLD) -> None:
        self._client = context.client
        self._clock = context.clock
        self._threshold = terminated_threshold
        self._pods = context.informers.of(PODS)
        self._pods.store.add_index(BY_NODE, by_node, same_node)
        # Without indexes each round would read all pods, and stop the process for 200 ms where there are 100,000.
        self._pods.store.add_index(_BY_ENDING, _by_ending, _same_ending)
        self._nodes = context.informers.of(NODES)
        self._missing_since: dict[str, float] = {}
        self._confirmed_gone: set[str] = set()
        labels = ("namespace", "reason")
        self.attempts: Counter[tuple[str, ...]] = Counter()
        """Deletions that were attempted, by namespace and reason."""
        self.errors: Counter[tuple[str, ...]] = Counter()
        """Failed deletions by namespace and reason."""
        context.count("pod_gc_collector_force_delete_pods", "Pods that were deleted by force.", labels, self.attempts)
        context.count("pod_gc_collector_force_delete_pod_errors", "Such deletions that failed.", labels, self.errors)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._pods.wait_synced()
        await self._nodes.wait_synced()
        while True:
            # The next round does not depend on this one, so a lost connection needs no other recovery.
            with one_of_many(_LOG, "orphaned and finished pods"):
                await self._look_around()
            await self._clock.sleep(PERIOD)

    async def _look_around(self) -> None:
        await self._collect_terminated()
        await self._note_missing_nodes()
        store = self._pods.store
        orphans = (pod for node in sorted(self._confirmed_gone) for pod in store.by_index(BY_NODE, node))
        for pod in {key_of(pod): pod for pod in (*orphans, *store.by_index(_BY_ENDING, _DELETED))}.values():
            with one_of_many(_LOG, "pod %s/%s", pod.metadata.namespace, pod.metadata.name):
                await self._collect(pod)

    async def _collect(self, pod: Pod) -> None:
        """Delete the pod if no node will end it."""
        if pod.spec.node_name in self._confirmed_gone:
            await self._end(pod, Collected.ORPHANED, self._node_gone())
        elif pod.metadata.deletion_timestamp is None:
            return
        elif not pod.spec.node_name:
            await self._end(pod, Collected.UNSCHEDULED)
        elif self._is_out_of_service(pod):
            await self._end(pod, Collected.OUT_OF_SERVICE)
        elif pod.metadata.deletion_grace_period_seconds == 0 and not pod.metadata.finalizers:
            await self._end(pod, Collected.INTERRUPTED)

    async def _collect_terminated(self) -> None:
        if self._threshold <= 0:
            return
        ended = self._pods.store.by_index(_BY_ENDING, _TERMINATED)
        surplus = len(ended) - self._threshold
        if surplus <= 0:
            return
        for pod in sorted(ended, key=_collected_first)[:surplus]:
            await self._end(pod, Collected.TERMINATED)

    async def _note_missing_nodes(self) -> None:
        now = self._clock.monotonic()
        used = self._pods.store.index_values(BY_NODE)
        missing = [name for name in used if self._nodes.store.get("", name) is None]
        # Nodes that came back, or have no pods any more, are forgotten.
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        self._confirmed_gone = set()
        for name, since in self._missing_since.items():
            # The informer alone is not trusted: deleting all pods of a living node cannot be undone.
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

    def _node_gone(self) -> PodCondition:
        return PodCondition(
            type="DisruptionTarget",
            status="True",
            last_transition_time=Time(self._clock.now()),
            reason="DeletionByPodGC",
            message="PodGC: node no longer exists",
        )

    async def _end(self, pod: Pod, why: Collected, disruption: PodCondition | None = None) -> None:
        """Patch the pod to phase Failed if it has not ended, and delete it. What failed is retried in the next round.

        The role of this controller has ``patch`` on ``pods/status`` and no ``update`` (upstream:
        ``pkg/controller/podgc/gc_controller.go``, markFailedAndDeletePodWithCondition).
        """
        metadata = pod.metadata
        pods = self._client.resource(PODS, metadata.namespace)
        reason = (metadata.namespace, why.value)
        self.attempts[reason] += 1
        try:
            # The phase first: its claims are freed only for pods that have ended.
            if not is_terminal(pod):
                await pods.patch(metadata.name, PatchType.STRATEGIC, _failed(pod, disruption), "status")
            await pods.delete(metadata.name, grace_period_seconds=0, uid=metadata.uid)
        except StatusError as error:
            if error.is_not_found or error.is_conflict:
                return  # the pod is gone, or another pod has its name
            self.errors[reason] += 1
            _LOG.error("pod %s/%s was not deleted (%s): %s", metadata.namespace, metadata.name, why.value, error)


def _failed(pod: Pod, disruption: PodCondition | None) -> JSONObject:
    """Return the strategic merge patch that ends a pod. Its uid makes it a conflict if another pod has the name."""
    status: JSONObject = {"phase": "Failed"}
    if disruption is not None:
        dated = keep_transition_time(disruption, find_condition(pod.status.conditions, disruption.type))
        status["conditions"] = [to_dict(dated)]
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def _by_ending(pod: Pod) -> tuple[str, ...]:
    terminated = (_TERMINATED,) if is_terminal(pod) else ()
    return terminated if pod.metadata.deletion_timestamp is None else (*terminated, _DELETED)


def _same_ending(old: Pod, new: Pod) -> bool:
    return (
        old.status.phase == new.status.phase
        and old.metadata.deletion_timestamp is None
        and new.metadata.deletion_timestamp is None
    )


def _collected_first(pod: Pod) -> tuple[bool, Time, str]:
    """Return the sort key of finished pods: evicted pods first, then the oldest."""
    metadata = pod.metadata
    return not _was_evicted(pod), metadata.creation_timestamp or Time(0), metadata.name


def _was_evicted(pod: Pod) -> bool:
    """Return True if the node ended the pod for want of something; such pods are the first to go."""
    return pod.status.phase == "Failed" and pod.status.reason == "Evicted"
