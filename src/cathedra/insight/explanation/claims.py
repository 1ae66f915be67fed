"""Reports of claims: their devices, since when, whether they are prepared, and their consumers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.allocation import Allocation, AllocationError, Refusal
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.core.core_v1 import Event, Pod
from cathedra.api.resource import Device, DeviceRequestAllocationResult, ResourceClaim
from cathedra.insight.explanation.report import ClaimReport, HeldDevice
from cathedra.insight.reading.state import ClusterState
from cathedra.printable import counted
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.groupdomains import attribute_text
from cathedra.semantics.podobstacles import warnings_about
from cathedra.semantics.pods import is_terminal
from cathedra.semantics.preferredconstraints import constraint_text, holds, preferences_of, with_constraints

FAILED_PREPARATION: Final = "FailedPrepareDynamicResources"
_SHORT: Final = 24


def claim_report(claim: ResourceClaim, origin: str, pod: Pod | None, state: ClusterState, *, made: bool) -> ClaimReport:
    """Return the report of a claim; ``made``: it does not exist yet."""
    allocation = claim.status.allocation
    return ClaimReport(
        name=f"{claim.metadata.namespace}/{claim.metadata.name}",
        origin=origin,
        state="not created" if made else claim_state(claim),
        requests=tuple(_requests(claim)),
        since=str(allocation.allocation_timestamp or "") if allocation is not None else "",
        prepared=_is_prepared(claim, pod, state) if pod is not None and allocation is not None else None,
        reserved_for=tuple(f"{one.resource.removesuffix('s')} {one.name}" for one in claim.status.reserved_for),
        devices=tuple(_device(claim, result, state) for result in allocation.devices.results) if allocation else (),
        preferences=tuple(_preferences(claim, state)),
    )


def _preferences(claim: ResourceClaim, state: ClusterState) -> Iterator[str]:
    """Yield the preferred constraints of a claim, with whether they hold, or on how many nodes they can hold now."""
    found = preferences_of(claim)
    if found.problem:
        yield f"has no preferences: {found.problem}"

    def device_of(result: DeviceRequestAllocationResult) -> Device | None:
        record = _record(result, state)
        return record.device if record is not None else None

    for constraint in found.constraints:
        text = f"prefers {constraint_text(constraint)}"
        if claim.status.allocation is None:
            yield f"{text}: can hold on {_nodes_for(with_constraints(claim, (constraint,)), state)}"
        elif holds(constraint, claim.status.allocation, device_of):
            yield f"{text}: holds"
        else:
            yield f"{text}: does not hold"


def _nodes_for(claim: ResourceClaim, state: ClusterState) -> str:
    """Return the number of nodes that have the devices for a claim, in words."""
    try:
        answers = state.cluster.allocator().prepare([claim]).on_each(state.nodes)
        results = [answers[place] for place in range(len(state.nodes))]
    # What is wrong with the claim itself is a cause of its own.
    except AllocationError:
        return "no node"
    fitting = sum(isinstance(one, Allocation) for one in results)
    stopped = sum(isinstance(one, Refusal) and bool(one.stopped) for one in results)
    beside = f"; the search for {counted(stopped, 'node')} ended at its bound" if stopped else ""
    return f"{fitting} of {counted(len(results), 'node')}{beside}"


def claim_state(claim: ResourceClaim) -> str:
    """As kubectl shows it."""
    allocated = claim.status.allocation is not None
    deleted = claim.metadata.deletion_timestamp is not None
    words = (
        ("deleted", deleted),
        ("pending", not allocated and not deleted),
        ("allocated", allocated),
        ("reserved", allocated and bool(claim.status.reserved_for)),
    )
    return ",".join(word for word, holds in words if holds)


def _requests(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests or ():
        bodies = (request.exactly,) if request.exactly is not None else request.first_available
        texts = []
        for body in bodies:
            count = "all" if body.allocation_mode == "All" else str(body.count or 1)
            texts.append(f"{count} × {body.device_class_name}")
        yield f"{request.name}: {', else '.join(texts)}"


def _is_prepared(claim: ResourceClaim, pod: Pod, state: ClusterState) -> bool | None:
    """Return True if the claim is prepared on the pod's node, for the pod or for another that shares it.

    If the pod has no node, that of any other consumer counts. None: the status of no pod determines it.
    """
    consumers = {one.uid for one in claim.status.reserved_for} - {pod.metadata.uid}
    sharing = (one for one in state.pods if one.metadata.uid in consumers) if consumers else ()
    if any(
        pod.spec.node_name in ("", one.spec.node_name) and _is_prepared_for(one, state) and not is_terminal(one)
        for one in sharing
    ):
        return True
    return _is_prepared_for(pod, state)


def _is_prepared_for(pod: Pod, state: ClusterState) -> bool | None:
    """Return True if the pod's node has prepared its claims; None if the pod's status does not determine it."""
    ready = find_condition(pod.status.conditions, "PodReadyToStartContainers")
    if pod.status.phase == "Running" or (ready is not None and ready.status == "True"):
        return True
    if not pod.spec.node_name or any(one.reason == FAILED_PREPARATION for one in warnings_about(pod, state.all(Event))):
        return False
    return None


def _device(claim: ResourceClaim, result: DeviceRequestAllocationResult, state: ClusterState) -> HeldDevice:
    record = _record(result, state)
    conditions = [
        f"{condition.type}={condition.status}" + (f" ({condition.message})" if condition.message else "")
        for status in claim.status.devices
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device)
        for condition in status.conditions or ()
    ]
    attributes = record.device.attributes if record is not None else {}
    texts = {name: attribute_text(value) for name, value in sorted(attributes.items())}
    taints = record.taints if record is not None else ()
    return HeldDevice(
        device=f"{result.driver}/{result.pool}/{result.device}",
        request=result.request,
        attributes={name: text for name, text in texts.items() if len(text) <= _SHORT},
        consumed={name: str(amount) for name, amount in sorted(result.consumed_capacity.items())},
        share_id=result.share_id or "",
        admin_access=bool(result.admin_access),
        exists=record is not None,
        taints=tuple(
            f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}" for one in taints
        ),
        conditions=tuple(conditions),
    )


def _record(result: DeviceRequestAllocationResult, state: ClusterState) -> DeviceRecord | None:
    for one in state.cluster.inventory.snapshot().pools.get((result.driver, result.pool), ()):
        for record in one.devices:
            if record.name == result.device:
                return record
    return None
