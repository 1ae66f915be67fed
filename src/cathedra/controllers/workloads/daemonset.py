"""The daemon set controller: one pod on every eligible node. Most DRA drivers run this way.

The placement of pods and the steps of a rolling update are pure functions. Source:
``pkg/controller/daemon/daemon_controller.go`` (NodeShouldRunDaemonPod), ``util/daemonset_util.go``, ``update.go``
(rollingUpdate).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

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
from cathedra.client.backoff import DatedBackoff
from cathedra.client.resources import DAEMONSETS, NODES
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import pod_from_template
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.templates import REVISION_HASH, resolve
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.pods import is_available, is_ready, is_terminal
from cathedra.semantics.tolerations import HARD_EFFECTS, first_untolerated


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
        # Placement depends on labels and taints alone; heartbeats of 5,000 nodes must not wake every set.
        if old.metadata.labels != node.metadata.labels or old.spec != node.spec:
            self._node_changed(node)

    async def sync(self, obj: DaemonSet) -> float | None:
        """Create missing pods, delete pods on wrong nodes, and replace outdated ones."""
        if obj.metadata.deletion_timestamp is not None:
            return None
        pods = self.controlled(obj)
        digest = await self._revisions.current(obj, obj.spec.template)
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            if not (is_terminal(pod) and pod.metadata.deletion_timestamp is not None):
                by_node.setdefault(target_node(pod), []).append(pod)
        wanted = {node.metadata.name for node in self._nodes.store if should_run(obj, node)}
        daemons = Daemons(obj, by_node, wanted, digest, self.clock.now())
        pause, failure = await self._place(daemons)
        # Rolling with pods that are not seen yet would delete more than maxUnavailable permits.
        if failure is None and self.expectations.met(obj.metadata.uid):
            failure = await self._roll(daemons)
            await self._forget_revisions(obj, pods, digest)
        await self._write_status(daemons)
        if failure is not None:
            raise failure
        waiting = 1.0 if obj.spec.min_ready_seconds and obj.status.number_unavailable else None
        return min((wait for wait in (pause, waiting) if wait is not None), default=None)

    async def _place(self, daemons: Daemons) -> tuple[float | None, Exception | None]:
        """Create and delete pods so that each eligible node has one. Pods of deleted nodes are left to the pod
        collector.

        Return the seconds after which a failed pod may be replaced, and the error of a failed creation.
        """
        obj = daemons.obj
        pauses: list[float] = []
        for node, found in daemons.by_node.items():
            living = oldest_first(pod for pod in found if pod.metadata.deletion_timestamp is None)
            known = self._nodes.store.get("", node)
            if ("", node) in self._nodes.store.undecodable:
                continue  # whether the node takes the pod is not known, so that the pod stays
            if known is None:
                # Pods that were never bound have no other collector.
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
        """Return the pods that have ended and are replaced now; ``pauses`` gets the seconds that others must wait."""
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
        """Do one step of the update, unless the strategy is OnDelete."""
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
        """Write the status. Each node counts by its first pod, also when that is being deleted."""
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


def oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods with a node first, of those the oldest."""
    return sorted(
        pods, key=lambda pod: (not pod.spec.node_name, str(pod.metadata.creation_timestamp), pod.metadata.name)
    )


def daemon_pod(obj: DaemonSet, node: str, digest: str) -> Pod:
    """Return the daemon's pod for a node, in the version that ``digest`` names."""
    made = pod_from_template(obj.spec.template, obj)
    labels = {**made.metadata.labels, REVISION_HASH: digest}
    generation = obj.metadata.annotations.get(_TEMPLATE_GENERATION_ANNOTATION)
    if generation:
        labels[TEMPLATE_GENERATION] = generation
    spec = replace(made.spec, affinity=_pinned(made.spec, node), tolerations=_tolerations(made.spec))
    return replace(made, metadata=replace(made.metadata, labels=labels), spec=spec)


def _pinned(spec: PodSpec, node: str) -> Affinity:
    """Return the pod's affinity with one required term left, which is for that node. The scheduler does the binding."""
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
    # Daemons must run where ordinary pods are driven away: they are what repairs a node.
    return (*spec.tolerations, *(toleration for toleration in added if toleration not in spec.tolerations))


def target_node(pod: Pod) -> str:
    """Return the node that a pod runs on, or that it is pinned to."""
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


def should_run(obj: DaemonSet, node: Node) -> bool:
    """Return True if the node is to have a pod."""
    return _fits(obj, node) and not _is_repelled(obj, node, HARD_EFFECTS)


def may_stay(obj: DaemonSet, node: Node) -> bool:
    """Return True if a pod that the node has may go on."""
    return _fits(obj, node) and not _is_repelled(obj, node, ("NoExecute",))


class Daemons(msgspec.Struct, frozen=True):
    """A daemon set and its pods at one moment."""

    obj: DaemonSet
    by_node: Mapping[str, Sequence[Pod]]
    """Pods by the node that they are on, or meant for; without those that have ended and are being deleted."""
    wanted: Collection[str]
    """The nodes that are to have a pod."""
    digest: str
    """Hash of the current template."""
    now: float

    def is_available(self, pod: Pod) -> bool:
        """Return True if the pod has been ready for long enough."""
        return is_available(pod, self.obj.spec.min_ready_seconds, self.now)

    def is_new(self, pod: Pod) -> bool:
        """Return True if the pod is of the present version."""
        return pod.metadata.labels.get(REVISION_HASH) == self.digest

    def pair(self, node: str) -> tuple[Pod | None, Pod | None] | None:
        """Return the old and the new pod of a node; None if there are two of a kind, of which one is going to be
        deleted."""
        living = [pod for pod in self.by_node.get(node, ()) if pod.metadata.deletion_timestamp is None]
        old = [pod for pod in living if not self.is_new(pod)]
        new = [pod for pod in living if self.is_new(pod)]
        if len(old) > 1 or len(new) > 1:
            return None
        return next(iter(old), None), next(iter(new), None)


class RolloutStep(msgspec.Struct, frozen=True):
    """Pods to delete, and nodes that get another."""

    doomed: tuple[Pod, ...] = ()
    nodes: tuple[str, ...] = ()


def limits(obj: DaemonSet, nodes: int) -> tuple[int, int]:
    """Return on how many nodes there may be a pod more, and on how many none."""
    rolling = obj.spec.update_strategy.rolling_update
    surge = resolve(rolling.max_surge if rolling else None, nodes, round_up=True, default=0)
    unavailable = resolve(rolling.max_unavailable if rolling else None, nodes, round_up=True, default=1)
    # With both at 0 no update could ever proceed.
    return surge, unavailable if surge or unavailable else 1


def surplus(daemons: Daemons, running: Iterable[Pod]) -> list[Pod]:
    """Return the pods of a node that are deleted: all but the oldest.

    With surge there may be an old and a new pod, until the old one is unready or the new one is available.
    """
    running = oldest_first(running)
    if not limits(daemons.obj, len(daemons.wanted))[0]:
        return running[1:]
    new = [pod for pod in running if daemons.is_new(pod)]
    old = [pod for pod in running if not daemons.is_new(pod)]
    doomed = [*new[1:], *old[1:]]
    if new and old and (daemons.is_available(new[0]) or not is_ready(old[0])):
        doomed.append(old[0])
    return doomed


def next_step(daemons: Daemons) -> RolloutStep:
    """Return the next step of the update."""
    surge, unavailable = limits(daemons.obj, len(daemons.wanted))
    return _surge(daemons, surge) if surge else _replace(daemons, unavailable)


def _replace(daemons: Daemons, unavailable: int) -> RolloutStep:
    """Delete old pods so that at most ``unavailable`` nodes have no available pod."""
    at_once: list[Pod] = []
    candidates: list[Pod] = []
    for node in sorted({*daemons.wanted, *daemons.by_node}):
        old, new = daemons.pair(node) or (None, None)
        if old is None or new is not None:
            unavailable -= new is None or old is not None or not daemons.is_available(new)
        elif daemons.is_available(old):
            candidates.append(old)
        else:
            # It is down already: replacing it costs nothing, but its node counts.
            at_once.append(old)
            unavailable -= 1
    return RolloutStep((*at_once, *candidates[: max(0, unavailable)]))


def _surge(daemons: Daemons, surge: int) -> RolloutStep:
    """Create new pods beside old ones, on up to ``surge`` nodes at a time.

    On nodes where no pod should run, the old one stays until enough others are available.
    """
    doomed: list[Pod] = []
    misplaced: list[Pod] = []
    at_once: list[str] = []
    candidates: list[str] = []
    available = 0
    for node in sorted({*daemons.wanted, *daemons.by_node}):
        pair = daemons.pair(node)
        if pair is None:
            surge -= 1
            continue
        old, new = pair
        first = old or new
        available += first is not None and daemons.is_available(first)
        if old is None:
            continue
        if new is not None:
            if daemons.is_available(new):
                doomed.append(old)
            else:
                surge -= 1
        elif node not in daemons.wanted:
            (misplaced if daemons.is_available(old) else doomed).append(old)
        else:
            (candidates if daemons.is_available(old) else at_once).append(node)
    doomed += misplaced[: max(0, available - len(daemons.wanted))]
    return RolloutStep(tuple(doomed), (*at_once, *candidates[: max(0, surge)]))
