"""The daemon set controller: one pod on every node that fits. Most DRA drivers run this way."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cathedra.api.core.apps_v1 import DaemonSet, DaemonSetStatus
from cathedra.api.core.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import replace
from cathedra.client.resources import DAEMONSETS, NODES
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import pod_from_template
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.rollout import resolve
from cathedra.controllers.workloads.templates import REVISION_HASH
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.pods import is_available, is_ready, is_terminal
from cathedra.semantics.tolerations import HARD_EFFECTS, first_untolerated

__all__ = ["DaemonSetController"]

TEMPLATE_GENERATION: Final = "pod-template-generation"
_TEMPLATE_GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController(WorkloadController[DaemonSet]):
    """Keeps one pod per node."""

    name = "daemonset-controller"
    component = "daemonset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, DAEMONSETS)
        self._revisions = Revisions(context.client, context.informers)
        self._nodes = context.informers.of(NODES)
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated, on_delete=self._node_changed)

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
        digest = await self._revisions.current(obj, obj.spec.template, obj.spec.revision_history_limit)
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            by_node.setdefault(_target_node(pod), []).append(pod)
        wanted = {node.metadata.name for node in self._nodes.store if _should_run(obj, node)}
        may_stay = {node.metadata.name for node in self._nodes.store if _may_stay(obj, node)}
        failure = await self._place(obj, by_node, wanted, may_stay, digest)
        await self._replace_outdated(obj, by_node, wanted, digest)
        await self._write_status(obj, by_node, wanted, digest)
        if failure is not None:
            raise failure
        return 1.0 if obj.spec.min_ready_seconds and obj.status.number_unavailable else None

    async def _place(
        self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], may_stay: set[str], digest: str
    ) -> Exception | None:
        for node, found in by_node.items():
            living = sorted(
                (pod for pod in found if pod.metadata.deletion_timestamp is None),
                key=lambda pod: (not pod.spec.node_name, str(pod.metadata.creation_timestamp), pod.metadata.name),
            )
            for number, pod in enumerate(living):
                if is_terminal(pod) or number > 0 or node not in may_stay:
                    await self.control.delete(obj, pod)
        missing = sorted(node for node in wanted if not by_node.get(node))
        return await self.control.create_all(obj, [_pod(obj, node, digest) for node in missing])

    async def _replace_outdated(
        self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], digest: str
    ) -> None:
        if obj.spec.update_strategy.type == "OnDelete":
            return
        rolling = obj.spec.update_strategy.rolling_update
        budget = resolve(rolling.max_unavailable if rolling else None, len(wanted), round_up=True, default=1)
        now = self.clock.now()
        outdated: list[Pod] = []
        for node in sorted(wanted):
            pod = next((p for p in by_node.get(node, ()) if p.metadata.deletion_timestamp is None), None)
            available = pod is not None and is_available(pod, obj.spec.min_ready_seconds, now)
            if pod is None or not available:
                budget -= 1
            if pod is not None and pod.metadata.labels.get(REVISION_HASH) != digest:
                if not available:
                    # It is down already: replacing it costs nothing.
                    budget += 1
                    outdated.insert(0, pod)
                else:
                    outdated.append(pod)
        for pod in outdated[: max(0, budget)]:
            await self.control.delete(obj, pod)

    async def _write_status(self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], digest: str) -> None:
        now = self.clock.now()
        running = [
            pod
            for node in wanted
            if (pod := next((p for p in by_node.get(node, ()) if p.metadata.deletion_timestamp is None), None))
        ]
        available = sum(is_available(pod, obj.spec.min_ready_seconds, now) for pod in running)
        status = DaemonSetStatus(
            current_number_scheduled=len(running),
            desired_number_scheduled=len(wanted),
            number_misscheduled=sum(bool(found) for node, found in by_node.items() if node and node not in wanted),
            number_ready=sum(map(is_ready, running)),
            number_available=available,
            number_unavailable=len(wanted) - available,
            updated_number_scheduled=sum(pod.metadata.labels.get(REVISION_HASH) == digest for pod in running),
            observed_generation=obj.metadata.generation,
            collision_count=obj.status.collision_count,
            conditions=obj.status.conditions,
        )
        if status != obj.status:
            await self.client.resource(DAEMONSETS, obj.metadata.namespace).update_status(replace(obj, status=status))


def _pod(obj: DaemonSet, node: str, digest: str) -> Pod:
    made = pod_from_template(obj.spec.template, obj)
    labels = {**made.metadata.labels, REVISION_HASH: digest}
    generation = obj.metadata.annotations.get(_TEMPLATE_GENERATION_ANNOTATION)
    if generation:
        labels[TEMPLATE_GENERATION] = generation
    spec = replace(made.spec, affinity=_pinned(made.spec, node), tolerations=_tolerations(made.spec))
    return replace(made, metadata=replace(made.metadata, labels=labels), spec=spec)


def _pinned(spec: PodSpec, node: str) -> Affinity:
    """The pod's affinity with one required term left: that very node. The scheduler does the binding."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(affinity, node_affinity=node_affinity)


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    wanted = list(_TOLERATED)
    if spec.host_network:
        wanted.append(("network-unavailable", "NoSchedule"))
    added = tuple(
        Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect) for key, effect in wanted
    )
    return (*spec.tolerations, *(toleration for toleration in added if toleration not in spec.tolerations))


def _target_node(pod: Pod) -> str:
    """The node that a pod runs on, or that it is pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in (required.node_selector_terms or ()) if required else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def _fits(obj: DaemonSet, node: Node) -> bool:
    spec = obj.spec.template.spec
    if spec.node_name and spec.node_name != node.metadata.name:
        return False
    if not spec.node_selector.items() <= node.metadata.labels.items():
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or node_selector_matches(required, node)


def _is_repelled(obj: DaemonSet, node: Node, effects: Collection[str]) -> bool:
    return first_untolerated(node.spec.taints, _tolerations(obj.spec.template.spec), effects) is not None


def _should_run(obj: DaemonSet, node: Node) -> bool:
    return _fits(obj, node) and not _is_repelled(obj, node, HARD_EFFECTS)


def _may_stay(obj: DaemonSet, node: Node) -> bool:
    return _fits(obj, node) and not _is_repelled(obj, node, ("NoExecute",))
