"""Comparison of a cluster at the end of a simulation with the cluster as it was read.

Pods are compared by UID, node and devices: a pod that is evicted and created again by its StatefulSet has its old name,
and may have its old node, but it was stopped and may have other devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from cathedra.api.core.apps_v1 import DaemonSet, StatefulSet
from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Event, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import Device, ResourceClaim, ResourceSlice
from cathedra.api.struct import encode
from cathedra.insight.explanation.afterfilters import refusal_of
from cathedra.insight.explanation.explainer import Explainer
from cathedra.insight.explanation.question import WORKLOADS, pods_of
from cathedra.insight.inventory.listing import device_rows
from cathedra.insight.inventory.report import DeviceEntry
from cathedra.insight.reading.state import ByKind, ClusterState, key_of
from cathedra.insight.simulation.report import NodeChange, PendingPods, PodPlacement, Simulation
from cathedra.scheduler.judging import Filters
from cathedra.semantics.owners import controller_of
from cathedra.semantics.podclaims import claim_names
from cathedra.semantics.podobstacles import warnings_about
from cathedra.semantics.pods import is_terminal

_WITHOUT_CONDITION: Final = (StatefulSet, DaemonSet, Job)
"""Kinds without the condition ReplicaFailure."""
_EXPLAINED: Final = 20
"""Largest number of pending pods that are explained one by one; others are counted with equal ones."""

_NO_DEVICES: Final = frozenset[str]()

MOST_ADDED: Final = 20_000
"""Devices of new nodes that are listed; a page could not draw many more."""


def compared(
    before: ClusterState,
    after: ClusterState,
    requested: Sequence[KubeObject] | None,
    filters: Filters | None = None,
) -> Simulation:
    """Return the differences.

    ``requested`` are the pods and workloads of the question. Other pods that waited before are not part of it. If it is
    None, nothing was changed, and the question is about all pods. ``filters`` are those over ``after``, if they exist
    already.
    """
    was = {pod.metadata.uid: pod for pod in before.pods if not is_terminal(pod)}
    now = {pod.metadata.uid: pod for pod in after.pods if not is_terminal(pod)}
    old = {_name(pod): pod for pod in was.values() if pod.spec.node_name and pod.metadata.uid not in now}
    ended = {pod.metadata.uid for pod in after.pods}
    placed = tuple(_placed(was, now, old, before, after))
    back = {one.pod for one in placed if one.before}
    gone = [pod for name, pod in sorted(old.items()) if name not in back and pod.metadata.uid not in ended]
    waiting = [pod for pod in sorted(now.values(), key=_name) if not pod.spec.node_name]
    waited = {uid for uid, pod in was.items() if not pod.spec.node_name} if requested is not None else set()
    waited -= {pod.metadata.uid for pod in _pods_of(requested or (), after)}
    return Simulation(
        placed=placed,
        gone=tuple(_placement(pod, before) for pod in gone),
        pending=_pending(waiting, waited, after, filters),
        nodes=tuple(_node_changes(before, after)),
        added=_added_devices(before, after),
        failures=(*_failures(after, before), *_deleted_again(requested or (), before, after)),
    )


def _added_devices(before: ClusterState, after: ClusterState) -> tuple[DeviceEntry, ...]:
    """Return the devices of new nodes. They are listed alone: an inventory of all nodes would take seconds."""
    names = {one.metadata.name for one in after.nodes} - {one.metadata.name for one in before.nodes}
    pieces = [one for one in after.all(ResourceSlice) if one.spec.node_name in names]
    if sum(len(one.spec.devices or ()) for one in pieces) > MOST_ADDED:
        return ()
    objects: ByKind = {**after.objects, ResourceSlice: {key_of(one): one for one in pieces}}
    few = dataclasses.replace(after, objects=objects, undecodable=(), followed=None)
    # Devices that claims hold on other nodes have no slice here, and would be listed as gone.
    return tuple(one for one in device_rows(few) if one.node in names) if pieces else ()


def _placed(
    was: Mapping[str, Pod], now: Mapping[str, Pod], old: Mapping[str, Pod], before: ClusterState, after: ClusterState
) -> Iterator[PodPlacement]:
    for pod in sorted(now.values(), key=_name):
        if not pod.spec.node_name:
            continue
        known = was.get(pod.metadata.uid)
        # Nothing that is unchanged is looked up further: a cluster has many pods that a change does not concern.
        if known is not None and known.spec.node_name == pod.spec.node_name:
            continue
        here = _placement(pod, after)
        earlier = old.get(_name(pod))
        if earlier is None:
            yield here
            continue
        there = _placement(earlier, before)
        yield PodPlacement(here.pod, here.node, here.devices, there.node, there.devices, owner=here.owner)


def _pods_of(requested: Iterable[KubeObject], after: ClusterState) -> Iterator[Pod]:
    for one in requested:
        metadata = one.metadata
        found: Any = after.get(type(one), metadata.name, metadata.namespace)
        if isinstance(found, Pod):
            yield found
        elif found is not None:
            yield from pods_of(found, after)


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _placement(pod: Pod, state: ClusterState) -> PodPlacement:
    found: dict[str, tuple[str, ...]] = {}
    for name in claim_names(pod):
        claim = state.get(ResourceClaim, name, pod.metadata.namespace)
        if claim is not None and claim.status.allocation is not None:
            results = claim.status.allocation.devices.results
            found[name] = tuple(f"{one.driver}/{one.pool}/{one.device}" for one in results)
    controller = controller_of(pod)
    owner = f"{controller.kind.lower()} {pod.metadata.namespace}/{controller.name}" if controller is not None else ""
    return PodPlacement(_name(pod), pod.spec.node_name, found, owner=owner)


def _pending(
    pods: Sequence[Pod], waited: set[str], state: ClusterState, filters: Filters | None
) -> tuple[PendingPods, ...]:
    """Return the pending pods, grouped by reason; pods of one owner, and pods with equal specs, are explained once."""
    reasons: dict[tuple[str, bool], list[str]] = {}
    known: dict[object, str] = {}
    # One for all pods, because filters over 5,000 nodes take 2 s to make. The report has no remedies, whose search
    # takes as long.
    explainer = Explainer(filters=None if filters is None else (state, filters), remedies=_no_remedies)
    for pod in pods:
        key = _equality(pod)
        if key not in known:
            known[key] = (
                _reason(pod, state, explainer)
                if len(known) < _EXPLAINED
                else "not looked at: there are too many different pods"
            )
        reasons.setdefault((known[key], pod.metadata.uid in waited), []).append(_name(pod))
    return tuple(PendingPods(tuple(names), why, before) for (why, before), names in reasons.items())


def _equality(pod: Pod) -> object:
    """Return a key that pods share if they wait for the same reason."""
    if pod.metadata.owner_references:
        return pod.metadata.owner_references[0].uid
    # What else has refused a pod is in its own condition.
    refusal = refusal_of(pod)
    why = refusal.message if refusal is not None else ""
    return pod.metadata.namespace, tuple(sorted(pod.metadata.labels.items())), why, encode(pod.spec)


def _no_remedies(*_: object) -> tuple[()]:
    return ()


def _reason(pod: Pod, state: ClusterState, explainer: Explainer) -> str:
    if pod.spec.scheduler_name not in ("", "default-scheduler"):
        return f"another scheduler decides, which is not simulated: {pod.spec.scheduler_name}"
    found = explainer.pod(pod, state)
    if not found.fits:
        return found.summary
    # It passes the filters: Reserve, Permit or PreBind have refused it, or a controller has not made its claims. Only
    # they have the reason.
    condition = refusal_of(pod)
    if condition is not None and condition.message:
        return condition.message
    return next(
        (event.message for event in warnings_about(pod, state.all(Event))), f"{found.summary}, but is not bound"
    )


def _node_changes(before: ClusterState, after: ClusterState) -> Iterator[NodeChange]:
    was, now = _device_counts(before), _device_counts(after)
    for name in sorted({*was, *now}):
        devices, held = now.get(name, (0, 0))
        devices_before, held_before = was.get(name, (0, 0))
        if held_before != held or (name in was) != (name in now):
            yield NodeChange(name, devices or devices_before, held_before, held)


def _device_counts(state: ClusterState) -> dict[str, tuple[int, int]]:
    """Return for each node its devices, and how many of them are held. Devices for several nodes are counted under «–».

    Slices are counted as they are, because the inventory of 5,000 nodes takes 1.5 s to build.
    """
    held: dict[tuple[str, str], set[str]] = {}
    for claim in state.all(ResourceClaim):
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                if not result.admin_access:
                    held.setdefault((result.driver, result.pool), set()).add(result.device)
    slices = state.all(ResourceSlice)
    newest: dict[tuple[str, str], int] = {}
    for piece in slices:
        pool = (piece.spec.driver, piece.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), piece.spec.pool.generation)
    found: dict[str, tuple[int, int]] = {}
    for piece in slices:
        pool = (piece.spec.driver, piece.spec.pool.name)
        if piece.spec.pool.generation < newest[pool]:
            continue
        names = held.get(pool, _NO_DEVICES)
        by_node: dict[str, Sequence[Device]] = {}
        if piece.spec.node_name and piece.spec.devices:
            by_node[piece.spec.node_name] = piece.spec.devices
        else:
            for device in piece.spec.devices or ():
                name = device.node_name or "–"
                by_node[name] = (*by_node.get(name, ()), device)
        for node, devices in by_node.items():
            number, taken = found.get(node, (0, 0))
            found[node] = number + len(devices), taken + sum([one.name in names for one in devices])
    return found


def _failures(after: ClusterState, before: ClusterState) -> Iterable[str]:
    """Return the failures to create pods that workloads report now and did not report before."""
    known = {*_conditions(before), *_events(before)}
    # Kinds without a condition for it report it in events alone.
    for text in dict.fromkeys((*_conditions(after), *_events(after))):
        if text not in known:
            yield text


def _deleted_again(requested: Iterable[KubeObject], before: ClusterState, after: ClusterState) -> Iterator[str]:
    """Return the pods of the question that a controller deletes, such as a ReplicaSet that selects them and has enough.

    They were not there before and are not there after, so no other comparison finds them.
    """
    for one in requested:
        metadata = one.metadata
        if not isinstance(one, Pod) or not metadata.name:
            continue
        if all(state.get(Pod, metadata.name, metadata.namespace) is None for state in (before, after)):
            yield f"pod {_name(one)}: a controller deletes it after it is created; see workloads that select its labels"


def _events(state: ClusterState) -> Iterator[str]:
    """Yield the last failure of each workload without that condition that has fewer pods than it wants."""
    for event in {one.involved_object.uid: one for one in state.all(Event) if _is_failed_creation(one)}.values():
        for kind in _WITHOUT_CONDITION:
            involved = event.involved_object
            one: Any = state.get(kind, involved.name, involved.namespace)
            if one is None or one.metadata.uid != involved.uid:
                continue
            spec = one.spec
            wanted = getattr(spec, "replicas", None) or getattr(spec, "parallelism", None) or 1
            if sum(1 for _ in pods_of(one, state)) < wanted:
                where = f"{kind.__name__.lower()} {involved.namespace}/{involved.name}"
                yield f"{where}: {event.message}"


def _is_failed_creation(event: Event) -> bool:
    return event.type == "Warning" and event.reason.startswith("Failed") and event.reason.endswith("Create")


def _conditions(state: ClusterState) -> Iterable[str]:
    for kind in WORKLOADS:
        for one in state.all(kind):
            conditions: Iterable[Any] = getattr(getattr(one, "status", None), "conditions", None) or ()
            for condition in conditions:
                if condition.type == "ReplicaFailure" and condition.status == "True":
                    metadata = one.metadata
                    yield f"{kind.__name__.lower()} {metadata.namespace}/{metadata.name}: {condition.message}"
