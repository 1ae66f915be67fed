"""The node lifecycle controller: health of nodes, and the taints that follow from it (docs/spec/controllers.md §9.1 to
§9.3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from cathedra.api.core.coordination_v1 import Lease
from cathedra.api.core.core_v1 import Node, NodeCondition, Pod, PodCondition, Taint, Toleration
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.backoff import TokenBucket
from cathedra.client.resources import LEASES, NODES, PODS
from cathedra.client.workqueue import WorkQueue, one_of_many, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.conditions import find_condition, with_condition
from cathedra.semantics.nodes import ready_status
from cathedra.semantics.pods import is_ready
from cathedra.semantics.tolerations import tolerates

_LOG = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
BY_NODE: Final = "pod-node"
_TURN: Final = 1000
"""Nodes whose health is checked in one turn of the loop, which takes 10 ms."""
_KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"


class LifecycleTiming(msgspec.Struct, frozen=True):
    """Seconds, nodes per second and shares."""

    period: float = 5.0
    grace: float = 50.0
    startup_grace: float = 60.0
    taint_rate: float = 0.1
    slow_taint_rate: float = 0.01
    unhealthy_share: float = 0.55
    large_cluster: int = 50


class _Heartbeat(msgspec.Struct):
    """Last heartbeat of a node, and the time at which it was seen (monotonic seconds)."""

    sign: tuple[object, ...]
    seen: float
    grace: float
    pods_to_mark: bool = False
    """True if pods of the node still have to be marked as not ready."""


class NodeLifecycleController:
    """Monitors the heartbeats of nodes."""

    name = "node-lifecycle-controller"

    def __init__(self, context: ControllerContext, *, timing: LifecycleTiming = LifecycleTiming()) -> None:
        self._client = context.client
        self._clock = context.clock
        self._timing = timing
        self._recorder = context.recorder("node-controller")
        self._queue: WorkQueue[str] = context.queue()
        self._nodes = context.informers.of(NODES)
        self._pods = context.informers.of(PODS)
        self._leases = context.informers.of(LEASES, namespace=LEASE_NAMESPACE)
        self._pods.store.add_index(BY_NODE, by_node, same_node)
        self._health: dict[str, _Heartbeat] = {}
        self._limits: dict[tuple[str, float], TokenBucket] = {}
        self._nodes.add_handler(on_add=self._added, on_update=self._updated, on_delete=self._removed)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        for informer in (self._nodes, self._pods, self._leases):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._sync_no_schedule, workers=8))
            group.create_task(self._watch_over())

    def _added(self, node: Node) -> None:
        self._queue.add(node.metadata.name)
        name = node.metadata.name
        message = f"Node {name} event: Registered Node {name} in Controller"
        self._recorder.record(node, "Normal", "RegisteredNode", message)

    def _updated(self, old: Node, node: Node) -> None:
        if old.spec != node.spec or old.status.conditions != node.status.conditions:
            self._queue.add(node.metadata.name)

    def _removed(self, node: Node) -> None:
        name = node.metadata.name
        self._health.pop(name, None)
        self._recorder.record(
            node, "Normal", "RemovingNode", f"Node {name} event: Removing Node {name} from Controller"
        )

    # NoSchedule taints: at once.

    async def _sync_no_schedule(self, name: str) -> None:
        node = self._nodes.store.get("", name)
        if node is None:
            return
        # Taints of other writers, and those with other effects, are kept below: this controller owns a fixed set of
        # keys only.
        wanted = no_schedule_keys(node)
        kept = tuple(
            taint
            for taint in node.spec.taints
            if taint.effect != "NoSchedule" or taint.key not in MANAGED_NO_SCHEDULE or taint.key in wanted
        )
        present = {taint.key for taint in kept if taint.effect == "NoSchedule"}
        now = Time(self._clock.now())
        added = tuple(Taint(key=key, effect="NoSchedule", time_added=now) for key in sorted(wanted - present))
        await self._set_taints(node, (*kept, *added))

    async def _set_taints(self, node: Node, taints: tuple[Taint, ...]) -> None:
        if taints == node.spec.taints:
            return
        try:
            await self._client.resource(NODES).update(replace(node, spec=replace(node.spec, taints=taints)))
        except StatusError as error:
            if not error.is_not_found:
                raise

    # Health.

    async def _watch_over(self) -> None:
        while True:
            for number, node in enumerate(self._nodes.store.list(), 1):
                with one_of_many(_LOG, "node %s", node.metadata.name):
                    await self._look_at(node)
                # Healthy nodes are checked without suspending, and 10,000 of them would stop the process for 100 ms.
                if number % _TURN == 0:
                    await asyncio.sleep(0)
            with one_of_many(_LOG, "NoExecute taints"):
                await self._sync_no_execute()
            await self._clock.sleep(self._timing.period)

    async def _look_at(self, node: Node) -> None:
        """Mark a node without heartbeats. NotReady conditions of a live kubelet are its own to write."""
        health = self._observe(node)
        name = node.metadata.name
        if self._clock.monotonic() - health.seen > health.grace:
            was_ready = ready_status(node) == "True"
            node = await self._mark_unknown(node)
            if was_ready:
                self._recorder.record(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
                health.pods_to_mark = True
        if ready_status(node) == "True":
            health.pods_to_mark = False
        if health.pods_to_mark:
            health.pods_to_mark = not await self._mark_pods_not_ready(node)

    def _observe(self, node: Node) -> _Heartbeat:
        """Note signs of life."""
        lease: Lease | None = self._leases.store.get(LEASE_NAMESPACE, node.metadata.name)
        ready = find_condition(node.status.conditions, "Ready")
        # A Ready condition that this controller set is no sign of life.
        heartbeat = ready.last_heartbeat_time if ready is not None else None
        sign = (node.metadata.uid, heartbeat, lease.spec.renew_time if lease is not None else None)
        grace = self._timing.grace if ready is not None else self._timing.startup_grace
        health = self._health.get(node.metadata.name)
        if health is None:
            age = 0.0
            if ready is None and node.metadata.creation_timestamp is not None:
                age = max(0.0, self._clock.now() - node.metadata.creation_timestamp.timestamp)
            # A node that never reported gets its grace from its creation, also after a restart of this controller.
            health = _Heartbeat(sign, self._clock.monotonic() - age, grace)
            self._health[node.metadata.name] = health
        # Any change counts as a sign of life. The times in it come from the node's clock, which may be wrong.
        elif health.sign != sign:
            health.sign, health.seen, health.grace = sign, self._clock.monotonic(), grace
        return health

    async def _mark_unknown(self, node: Node) -> Node:
        now = Time(self._clock.now())
        conditions = list(node.status.conditions)
        for kind in _KUBELET_CONDITIONS:
            position = next((i for i, known in enumerate(conditions) if known.type == kind), None)
            if position is None:
                conditions.append(
                    NodeCondition(
                        type=kind,
                        status="Unknown",
                        last_heartbeat_time=node.metadata.creation_timestamp,
                        last_transition_time=now,
                        reason="NodeStatusNeverUpdated",
                        message="Kubelet never posted node status.",
                    )
                )
            elif conditions[position].status != "Unknown":
                conditions[position] = replace(
                    conditions[position],
                    status="Unknown",
                    last_transition_time=now,
                    reason="NodeStatusUnknown",
                    message="Kubelet stopped posting node status.",
                )
        if tuple(conditions) == node.status.conditions:
            return node
        status = replace(node.status, conditions=tuple(conditions))
        updated = await self._client.resource(NODES).update_status(replace(node, status=status))
        health = self._health[node.metadata.name]
        # What was written here must not look like a heartbeat when it comes back.
        ready = find_condition(updated.status.conditions, "Ready")
        health.sign = (health.sign[0], ready.last_heartbeat_time if ready else None, health.sign[2])
        return updated

    async def _mark_pods_not_ready(self, node: Node) -> bool:
        """Return True if all of them are marked; a conflict has to be tried again."""
        marked_all = True
        for pod in self._pods.store.by_index(BY_NODE, node.metadata.name):
            if not is_ready(pod):
                continue
            now = Time(self._clock.now())
            not_ready = PodCondition(type="Ready", status="False", last_transition_time=now)
            self._recorder.record(pod, "Warning", "NodeNotReady", "Node is not ready")
            try:
                conditions = with_condition(pod.status.conditions, not_ready)
                marked = replace(pod, status=replace(pod.status, conditions=conditions))
                await self._client.resource(PODS, pod.metadata.namespace).update_status(marked)
            except StatusError as error:
                # A conflict means that the kubelet, or another controller, wrote the pod: the next round sees that
                # state.
                if not (error.is_not_found or error.is_conflict):
                    raise
                marked_all = marked_all and error.is_not_found
        return marked_all

    # NoExecute taints: slowly.

    async def _sync_no_execute(self) -> None:
        nodes = self._nodes.store.list()
        # If no node is healthy the controller itself is cut off from all of them, most likely. There is nowhere to
        # evict to.
        keys = {node.metadata.name: no_execute_key(node) for node in nodes}
        everything_down = bool(nodes) and all(keys.values())
        for zone, members in _zones(nodes).items():
            unhealthy = sum(1 for node in members if keys[node.metadata.name])
            rate = self._rate(len(nodes), len(members), unhealthy)
            for node in members:
                wanted = "" if everything_down else keys[node.metadata.name]
                # Nearly all of 10,000 nodes are healthy, and are skipped in one test.
                if not wanted and not node.spec.taints:
                    continue
                with one_of_many(_LOG, "node %s", node.metadata.name):
                    await self._set_no_execute(node, wanted, zone, rate)

    def _rate(self, cluster: int, zone: int, unhealthy: int) -> float:
        # Many nodes of one zone that fail together usually mean a broken network. Evicting their pods would overload
        # the others and gain nothing.
        partial = unhealthy > 2 and unhealthy < zone and unhealthy / zone >= self._timing.unhealthy_share
        if not partial:
            return self._timing.taint_rate
        # A small cluster has no room for the pods of a zone, so nothing is evicted at all.
        return self._timing.slow_taint_rate if cluster > self._timing.large_cluster else 0.0

    async def _set_no_execute(self, node: Node, wanted: str, zone: str, rate: float) -> None:
        kept = tuple(
            taint
            for taint in node.spec.taints
            if taint.effect != "NoExecute" or taint.key not in (NOT_READY, UNREACHABLE) or taint.key == wanted
        )
        had_any = len(kept) < len(node.spec.taints)
        if wanted and not any(taint.key == wanted and taint.effect == "NoExecute" for taint in kept):
            # Changing the reason is free, the first taint of a node costs a token of its zone.
            if not had_any and not self._may_taint(zone, rate):
                return
            kept = (*kept, Taint(key=wanted, effect="NoExecute", time_added=Time(self._clock.now())))
        await self._set_taints(node, kept)

    def _may_taint(self, zone: str, rate: float) -> bool:
        if rate <= 0:
            return False
        limit = self._limits.get((zone, rate))
        if limit is None:
            limit = self._limits[zone, rate] = TokenBucket(self._clock, rate=rate, burst=1)
        return limit.take()


def by_node(pod: Pod) -> tuple[str, ...]:
    """Index function: the node that a pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def same_node(old: Pod, new: Pod) -> bool:
    """Return True if a pod stays where it is in an index `by_node`."""
    return old.spec.node_name == new.spec.node_name


def _zones(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    zones: dict[str, list[Node]] = {}
    for node in nodes:
        labels = node.metadata.labels
        zones.setdefault(f"{labels.get(_REGION, '')}/{labels.get(_ZONE, '')}", []).append(node)
    return zones


NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

_CONDITION_TAINTS: Final = {
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
}
MANAGED_NO_SCHEDULE: Final = frozenset({*_CONDITION_TAINTS.values(), UNSCHEDULABLE})


def no_schedule_keys(node: Node) -> frozenset[str]:
    """Return the keys of NoSchedule taints for the node's conditions and ``spec.unschedulable``."""
    keys = {
        key
        for condition in node.status.conditions
        if (key := _CONDITION_TAINTS.get((condition.type, condition.status))) is not None
    }
    if find_condition(node.status.conditions, "Ready") is None:
        keys.add(NOT_READY)
    if node.spec.unschedulable:
        keys.add(UNSCHEDULABLE)
    return frozenset(keys)


def no_execute_key(node: Node) -> str:
    """Return the key of the NoExecute taint for the node's health; "" for a healthy node."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(ready_status(node), "")


def eviction_delay(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> float | None:
    """Return the seconds for which a pod may stay under these NoExecute taints; None for ever, 0 not at all.

    Of several tolerations of a taint the first one counts.
    """
    tolerations = tuple(tolerations)
    used: list[Toleration] = []
    for taint in taints:
        match = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if match is None:
            return 0.0
        used.append(match)
    limits = [float(max(0, t.toleration_seconds)) for t in used if t.toleration_seconds is not None]
    return min(limits, default=None)
