"""The daemon set controller: one pod on every node that fits. Most DRA drivers run this way.

Source: ``pkg/controller/daemon/daemon_controller.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cathedra.api.core.apps_v1 import DaemonSet, DaemonSetStatus
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.struct import replace
from cathedra.client.backoff import DatedBackoff
from cathedra.client.resources import DAEMONSETS, NODES
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.workloads.daemonset.placement import (
    daemon_pod,
    may_stay,
    oldest_first,
    should_run,
    target_node,
)
from cathedra.controllers.workloads.daemonset.rolling import Daemons, next_step, surplus
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.templates import REVISION_HASH
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.pods import is_ready, is_terminal

__all__ = ["DaemonSetController"]


class DaemonSetController(WorkloadController[DaemonSet]):
    """Keeps one pod per node."""

    name = "daemonset-controller"
    component = "daemonset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, DAEMONSETS)
        self._revisions = Revisions(context.client, context.informers)
        self._nodes = context.informers.of(NODES)
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated)
        self._failures: DatedBackoff[tuple[str, int, str]] = DatedBackoff(context.clock, base=1.0, maximum=900.0)
        """Failed pods by their set's uid, its generation and their node: they are not replaced in quick succession."""

    async def wait_for_more(self) -> None:
        """Wait for nodes and revisions."""
        await self._nodes.wait_synced()
        await self._revisions.informer.wait_synced()

    def _node_changed(self, node: Node) -> None:
        for obj in self.objects.store:
            self.enqueue(obj)

    def _node_updated(self, old: Node, node: Node) -> None:
        if old.metadata.labels != node.metadata.labels or old.spec != node.spec:
            self._node_changed(node)

    async def sync(self, obj: DaemonSet, pods: list[Pod]) -> float | None:
        """Create where a pod is missing, delete where it does not belong, replace what is outdated."""
        if obj.metadata.deletion_timestamp is not None:
            return None
        digest = await self._revisions.current(obj, obj.spec.template)
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            if not (is_terminal(pod) and pod.metadata.deletion_timestamp is not None):
                by_node.setdefault(target_node(pod), []).append(pod)
        wanted = {node.metadata.name for node in self._nodes.store if should_run(obj, node)}
        daemons = Daemons(obj, by_node, wanted, digest, self.clock.now())
        pause, failure = await self._place(daemons)
        if failure is None and self.expectations.met(obj.metadata.uid):
            failure = await self._roll(daemons)
            await self._forget_revisions(obj, pods, digest)
        await self._write_status(daemons)
        if failure is not None:
            raise failure
        waiting = 1.0 if obj.spec.min_ready_seconds and obj.status.number_unavailable else None
        return min((wait for wait in (pause, waiting) if wait is not None), default=None)

    async def _place(self, daemons: Daemons) -> tuple[float | None, Exception | None]:
        """One pod on each node where there should be one; pods of nodes that are gone are left to the pod collector.

        Answers the seconds after which a failed pod may be replaced, and what could not be created.
        """
        obj = daemons.obj
        pauses: list[float] = []
        for node, found in daemons.by_node.items():
            living = oldest_first(pod for pod in found if pod.metadata.deletion_timestamp is None)
            known = self._nodes.store.get("", node)
            if ("", node) in self._nodes.store.undecodable:
                continue  # whether the node takes the pod is not known, so that the pod stays
            if known is None:
                doomed = [pod for pod in living if not pod.spec.node_name]
            elif not may_stay(obj, known):
                doomed = living
            else:
                doomed = self._ended(obj, node, living, pauses)
                doomed += surplus(daemons, [pod for pod in living if not is_terminal(pod)])
            for pod in doomed:
                await self.control.delete(obj, pod)
        missing = sorted(node for node in daemons.wanted if not daemons.by_node.get(node))
        return min(pauses, default=None), await self._create(daemons, missing)

    def _ended(self, obj: DaemonSet, node: str, pods: Iterable[Pod], pauses: list[float]) -> list[Pod]:
        """The pods that have ended and are replaced now; ``pauses`` gets the seconds that others have to wait."""
        doomed: list[Pod] = []
        for pod in pods:
            if not is_terminal(pod):
                continue
            if pod.status.phase == "Failed":
                key = (obj.metadata.uid, obj.status.observed_generation, node)
                pause = self._failures.pause(key)
                if pause > 0:
                    pauses.append(pause)
                    continue
                self._failures.failed(key)
            self._tell_end(obj, pod, node)
            doomed.append(pod)
        return doomed

    def _tell_end(self, obj: DaemonSet, pod: Pod, node: str) -> None:
        shown = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {node}"
        if pod.status.phase == "Failed":
            message = f"Found failed {shown}, will try to kill it"
            self.recorder.record(obj, "Warning", "FailedDaemonPod", message)
        else:
            message = f"Found succeeded {shown}, will try to delete it"
            self.recorder.record(obj, "Normal", "SucceededDaemonPod", message)

    async def _roll(self, daemons: Daemons) -> Exception | None:
        """One step of the update, unless pods are replaced only when they are deleted by hand."""
        if daemons.obj.spec.update_strategy.type == "OnDelete":
            return None
        step = next_step(daemons)
        for pod in step.doomed:
            await self.control.delete(daemons.obj, pod)
        return await self._create(daemons, step.nodes)

    async def _create(self, daemons: Daemons, nodes: Iterable[str]) -> Exception | None:
        pods = [daemon_pod(daemons.obj, node, daemons.digest) for node in nodes]
        return await self.control.create_all(daemons.obj, pods)

    async def _forget_revisions(self, obj: DaemonSet, pods: Iterable[Pod], digest: str) -> None:
        prefix = f"{obj.metadata.name}-"
        in_use = {prefix + pod.metadata.labels.get(REVISION_HASH, "") for pod in pods}
        await self._revisions.forget_beyond(obj, obj.spec.revision_history_limit, prefix + digest, in_use)

    async def _write_status(self, daemons: Daemons) -> None:
        """Each node counts by its first pod, also when that is being deleted."""
        obj, by_node, wanted = daemons.obj, daemons.by_node, daemons.wanted
        running = [oldest_first(by_node[node])[0] for node in sorted(wanted) if by_node.get(node)]
        available = sum(map(daemons.is_available, running))
        status = DaemonSetStatus(
            current_number_scheduled=len(running),
            desired_number_scheduled=len(wanted),
            number_misscheduled=self._misplaced(by_node, wanted),
            number_ready=sum(map(is_ready, running)),
            number_available=available,
            number_unavailable=len(wanted) - available,
            updated_number_scheduled=sum(map(daemons.is_new, running)),
            observed_generation=obj.metadata.generation,
            collision_count=obj.status.collision_count,
            conditions=obj.status.conditions,
        )
        if status != obj.status:
            await self.client.resource(DAEMONSETS, obj.metadata.namespace).update_status(replace(obj, status=status))

    def _misplaced(self, by_node: Mapping[str, object], wanted: Iterable[str]) -> int:
        return sum(self._nodes.store.get("", node) is not None for node in by_node.keys() - set(wanted))
