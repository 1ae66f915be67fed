"""The taint eviction controller: deletes pods from nodes whose NoExecute taints they do not tolerate.

Spec: docs/spec/controllers.md §9.3.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Node, Pod, Taint
from cathedra.client.objects import ObjectKey, key_of
from cathedra.client.resources import NODES, PODS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.nodes.lifecycle import BY_NODE, by_node, eviction_delay, same_node
from cathedra.controllers.podcontrol import evict
from cathedra.semantics.tolerations import first_untolerated

WORKERS: Final = 8


class TaintEvictionController:
    """Evicts pods when their time on a tainted node is over."""

    name = "taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder("taint-eviction-controller")
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        self._pods.store.add_index(BY_NODE, by_node, same_node)
        self._scheduled: dict[ObjectKey, _Eviction] = {}
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated)
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_gone)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    def _node_changed(self, node: Node) -> None:
        if _no_execute(node):
            self._reconsider(node)

    def _node_updated(self, old: Node, node: Node) -> None:
        # Heartbeats change a node every few seconds; only a change of these taints concerns its pods.
        if _no_execute(old) != _no_execute(node):
            self._reconsider(node)

    def _reconsider(self, node: Node) -> None:
        for pod in self._pods.store.by_index(BY_NODE, node.metadata.name):
            self._queue.add(key_of(pod))

    def _pod_changed(self, pod: Pod) -> None:
        node = self._nodes.store.get("", pod.spec.node_name) if pod.spec.node_name else None
        if node is not None and _no_execute(node):
            self._queue.add(key_of(pod))

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        if old.spec.node_name != pod.spec.node_name or old.spec.tolerations != pod.spec.tolerations:
            self._pod_changed(pod)

    def _pod_gone(self, pod: Pod) -> None:
        self._cancel(pod)

    def _cancel(self, pod: Pod) -> None:
        """Cancel the scheduled eviction of the pod, if there is one."""
        if self._scheduled.pop(key_of(pod), None) is not None:
            text = f"Cancelling deletion of Pod {key_of(pod)}"
            self._recorder.record(pod, "Normal", "TaintManagerEviction", text)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(*key)
        if pod is None:
            return None
        ahead = self._scheduled.get(key)
        # A recreated pod has the same name. The time of its predecessor must not count against it.
        if ahead is not None and ahead.uid != pod.metadata.uid:
            del self._scheduled[key]
            ahead = None
        node = self._nodes.store.get("", pod.spec.node_name)
        taints = _no_execute(node) if node is not None else ()
        delay = eviction_delay(taints, pod.spec.tolerations)
        if delay is None:
            self._cancel(pod)
            return None
        # Evicted at once, whatever time another taint's toleration would grant.
        if first_untolerated(taints, pod.spec.tolerations) is not None:
            self._cancel(pod)
        else:
            # An eviction that is ahead stays as it is, whatever the taints are by now.
            due = ahead.due if ahead is not None else self._clock.now() + delay
            wait = due - self._clock.now()
            if wait > 0:
                self._scheduled[key] = _Eviction(pod.metadata.uid, due)
                return wait
        self._scheduled.pop(key, None)
        self._recorder.record(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        message = "Taint manager: deleting due to NoExecute taint"
        # The condition DisruptionTarget is written before the deletion, so that a job's failure policy can distinguish
        # an eviction from a failure.
        await evict(self._client, self._clock, pod, "DeletionByTaintManager", message)
        return None


class _Eviction(msgspec.Struct, frozen=True):
    """A pod that will be evicted, and when (epoch seconds)."""

    uid: str
    due: float


def _no_execute(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")
