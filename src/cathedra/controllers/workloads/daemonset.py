"""The daemon set controller: one pod on every node that fits. Most DRA drivers run this way."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated)

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
        if failure is None and obj.spec.update_strategy.type != "OnDelete":
            surge, unavailable = _limits(obj, len(wanted))
            if surge:
                failure = await self._surge(obj, by_node, wanted, digest, surge)
            else:
                await self._replace_outdated(obj, by_node, wanted, digest, unavailable)
        await self._write_status(obj, by_node, wanted, digest)
        if failure is not None:
            raise failure
        return 1.0 if obj.spec.min_ready_seconds and obj.status.number_unavailable else None

    async def _place(
        self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], may_stay: set[str], digest: str
    ) -> Exception | None:
        """One pod on each node where there should be one; pods of nodes that are gone are left to the pod collector."""
        for node, found in by_node.items():
            living = _oldest_first(pod for pod in found if pod.metadata.deletion_timestamp is None)
            if self._nodes.store.get("", node) is None:
                doomed = [pod for pod in living if not pod.spec.node_name]
            elif node not in may_stay:
                doomed = living
            else:
                doomed = [pod for pod in living if is_terminal(pod)]
                for pod in doomed:
                    self._tell_end(obj, pod, node)
                running = [pod for pod in living if not is_terminal(pod)]
                doomed += self._surplus(obj, running, digest) if _limits(obj, len(wanted))[0] else running[1:]
            for pod in doomed:
                await self.control.delete(obj, pod)
        missing = sorted(node for node in wanted if not by_node.get(node))
        return await self.control.create_all(obj, [_pod(obj, node, digest) for node in missing])

    def _tell_end(self, obj: DaemonSet, pod: Pod, node: str) -> None:
        shown = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {node}"
        if pod.status.phase == "Failed":
            message = f"Found failed {shown}, will try to kill it"
            self.recorder.record(obj, "Warning", "FailedDaemonPod", message)
        else:
            message = f"Found succeeded {shown}, will try to delete it"
            self.recorder.record(obj, "Normal", "SucceededDaemonPod", message)

    def _surplus(self, obj: DaemonSet, running: list[Pod], digest: str) -> list[Pod]:
        """What goes when there may be an old and a new pod: all but the first of each, and the old one when it is
        not ready or the new one is available."""
        new = [pod for pod in running if pod.metadata.labels.get(REVISION_HASH) == digest]
        old = [pod for pod in running if pod.metadata.labels.get(REVISION_HASH) != digest]
        doomed = [*new[1:], *old[1:]]
        if new and old:
            available = is_available(new[0], obj.spec.min_ready_seconds, self.clock.now())
            if available or not is_ready(old[0]):
                doomed.append(old[0])
        return doomed

    def _old_and_new(self, found: Iterable[Pod], digest: str) -> tuple[Pod | None, Pod | None]:
        living = _oldest_first(pod for pod in found if pod.metadata.deletion_timestamp is None)
        old = next((pod for pod in living if pod.metadata.labels.get(REVISION_HASH) != digest), None)
        return old, next((pod for pod in living if pod.metadata.labels.get(REVISION_HASH) == digest), None)

    async def _surge(
        self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], digest: str, surge: int
    ) -> Exception | None:
        """Put a new pod beside an old one, on so many nodes at a time."""
        now = self.clock.now()
        at_once: list[str] = []
        candidates: list[str] = []
        for node in sorted(wanted & by_node.keys()):
            old, new = self._old_and_new(by_node[node], digest)
            if old is None:
                continue
            if new is not None:
                surge -= not is_available(new, obj.spec.min_ready_seconds, now)
            elif is_available(old, obj.spec.min_ready_seconds, now):
                candidates.append(node)
            else:
                at_once.append(node)
        nodes = at_once + candidates[: max(0, surge)]
        return await self.control.create_all(obj, [_pod(obj, node, digest) for node in nodes])

    async def _replace_outdated(
        self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], digest: str, unavailable: int
    ) -> None:
        """Delete old pods so that no more than so many nodes are without an available one."""
        now = self.clock.now()
        at_once: list[Pod] = []
        candidates: list[Pod] = []
        for node in sorted(wanted):
            old, new = self._old_and_new(by_node.get(node, ()), digest)
            if old is None or new is not None:
                available = new is not None and is_available(new, obj.spec.min_ready_seconds, now)
                unavailable -= not available
            elif is_available(old, obj.spec.min_ready_seconds, now):
                candidates.append(old)
            else:
                # It is down already: replacing it costs nothing.
                at_once.append(old)
        for pod in at_once + candidates[: max(0, unavailable)]:
            await self.control.delete(obj, pod)

    async def _write_status(self, obj: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], digest: str) -> None:
        """Each node counts by its first pod, also when that is being deleted."""
        now = self.clock.now()
        running = [_oldest_first(by_node[node])[0] for node in sorted(wanted) if by_node.get(node)]
        available = sum(is_available(pod, obj.spec.min_ready_seconds, now) for pod in running)
        misplaced = (node for node, found in by_node.items() if found and node not in wanted)
        status = DaemonSetStatus(
            current_number_scheduled=len(running),
            desired_number_scheduled=len(wanted),
            number_misscheduled=sum(self._nodes.store.get("", node) is not None for node in misplaced),
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


def _limits(obj: DaemonSet, nodes: int) -> tuple[int, int]:
    """On how many nodes there may be a pod more, and on how many none."""
    rolling = obj.spec.update_strategy.rolling_update
    surge = resolve(rolling.max_surge if rolling else None, nodes, round_up=True, default=0)
    unavailable = resolve(rolling.max_unavailable if rolling else None, nodes, round_up=True, default=1)
    return surge, unavailable if surge or unavailable else 1


def _oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Pods with a node first, of those the oldest."""
    return sorted(
        pods, key=lambda pod: (not pod.spec.node_name, str(pod.metadata.creation_timestamp), pod.metadata.name)
    )


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
