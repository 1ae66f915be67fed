"""Why a pod waits, in one line: its claims first, then the allocator's refusal, then what scheduler and node said.

The scheduler's own message says how many nodes failed; what a user needs is which claim, which test, and who holds the
devices. Both come from the same allocator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cathedra.allocation import AllocationError, Cluster, NodeError, Refusal, RequestReason, allocate
from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.semantics.conditions import find_condition

__all__ = ["Surroundings", "why_waiting"]

_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_HOLDERS: Final = 2
"""Holders of devices that are named; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What there is beside the pod, read at one moment."""

    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[ResourceClaim, ...]
    templates: tuple[ResourceClaimTemplate, ...]
    rules: tuple[DeviceTaintRule, ...]
    warnings: tuple[Event, ...]

    def allocator_view(self) -> Cluster:
        """The same for the allocator."""
        return Cluster.of([self.nodes, self.slices, self.classes, self.claims, self.templates, self.rules])


def why_waiting(pod: Pod, around: Surroundings, cluster: Cluster) -> str:
    """The cause in one line; "" for a pod that does not wait."""
    if pod.status.phase != "Pending":
        return ""
    if pod.spec.node_name:
        return _said_by_node(pod, around) or _missing(pod, around) or "its node prepares it"
    if pod.spec.scheduling_gates:
        return "waits for its scheduling gates " + ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    return _missing(pod, around) or _refused(pod, around, cluster) or _said_by_scheduler(pod)


def _missing(pod: Pod, around: Surroundings) -> str:
    """A claim, template, class or driver that the pod needs and that is not there."""
    namespace = pod.metadata.namespace
    for entry in pod.spec.resource_claims:
        owner: tuple[ResourceClaim | ResourceClaimTemplate, ...] = around.templates
        kind, name = "template", entry.resource_claim_template_name or ""
        if entry.resource_claim_name is not None:
            owner, kind, name = around.claims, "claim", entry.resource_claim_name
        found = [one for one in owner if one.metadata.name == name]
        here = next((one for one in found if one.metadata.namespace == namespace), None)
        if here is None:
            elsewhere = ", ".join(sorted(one.metadata.namespace for one in found))
            hint = f"; there is one in {elsewhere}, and pods use those of their own namespace" if elsewhere else ""
            return f"{kind} {name!r} does not exist in namespace {namespace!r}{hint}"
        spec = here.spec.spec if isinstance(here, ResourceClaimTemplate) else here.spec
        if isinstance(here, ResourceClaim) and here.status.allocation is not None:
            continue
        wanted = [
            one.device_class_name
            for request in spec.devices.requests or ()
            for one in (request.exactly, *request.first_available)
            if one is not None
        ]
        if cause := _missing_class(f"{kind} {name!r}", wanted, around):
            return cause
    return ""


def _missing_class(who: str, wanted: Iterable[str], around: Surroundings) -> str:
    classes = {one.metadata.name: one for one in around.classes}
    drivers = {piece.spec.driver for piece in around.slices}
    for name in wanted:
        if name not in classes:
            return f"device class {name!r} of {who} does not exist"
        for selector in classes[name].spec.selectors:
            named = _DRIVER.search(selector.cel.expression) if selector.cel is not None else None
            if named and named[1] not in drivers:
                known = f"there are those of {', '.join(sorted(drivers))}" if drivers else "there are none at all"
                return f"no devices of driver {named[1]!r} (class {name!r}) are published; {known}"
    return ""


def _refused(pod: Pod, around: Surroundings, cluster: Cluster) -> str:
    """What the allocator says, where no node can have the pod's claims."""
    if not pod.spec.resource_claims:
        return ""
    causes: list[str] = []
    for node in around.nodes:
        try:
            answer = allocate(node, pod, cluster)
        except NodeError as error:
            causes.append(str(error))
        except AllocationError as error:
            return str(error)
        else:
            if not isinstance(answer, Refusal):
                return ""
            causes.append(_cause(answer))
    if not causes:
        return "there is no node"
    most = max(set(causes), key=causes.count)
    where = f"on all {len(causes)} nodes" if causes.count(most) == len(causes) else f"on {causes.count(most)} nodes"
    return most if len(causes) == 1 else f"{most} ({where})"


def _cause(refusal: Refusal) -> str:
    if refusal.stopped:
        return f"the search was stopped after {refusal.states} states"
    reasons = [one for one in refusal.reasons if one.obstacle != "other requests"] or list(refusal.reasons)
    return _sentence(reasons[0]) if reasons else str(refusal)


def _sentence(reason: RequestReason) -> str:
    who = f"request {reason.request!r} wants {reason.wanted or 'all'}"
    match reason.obstacle:
        case "reach":
            return f"{who}: {reason.in_reach} devices are in reach" + _pools(reason.unusable_pools)
        case "class":
            return f"{who}: {reason.class_passed} of {reason.bound} devices are of its class"
        case "selectors":
            return f"{who}: {reason.selected} of {reason.class_passed} devices match its selectors"
        case "allocated":
            return f"{who}: {reason.free} of {reason.on_node} matching devices are free, {_holders(reason.holders)}"
        case "taints":
            taints = ", ".join(reason.taints)
            return f"{who}: {reason.tolerated} of {reason.operable} free devices are without taint ({taints})"
        case "capacity":
            return f"{who}: {reason.with_capacity} of {reason.tolerated} free devices have capacity enough left"
        case "counters":
            return (
                f"{who}: {reason.with_counters} of {reason.with_capacity} free devices are not blocked by counters "
                "that they share with allocated ones"
            )
        case _:
            return str(reason)


def _holders(holders: Mapping[str, int]) -> str:
    named = ", ".join(list(holders)[:_HOLDERS])
    more = len(holders) - _HOLDERS
    return f"the others are held by {named}" + (f" and {more} more" if more > 0 else "") if holders else "none is held"


def _pools(unusable: Mapping[str, str]) -> str:
    return "".join(f"; pool {name}: {why}" for name, why in unusable.items())


def _said_by_scheduler(pod: Pod) -> str:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is None:
        return "the scheduler has not tried it yet"
    return scheduled.message if scheduled.status == "False" else ""


def _said_by_node(pod: Pod, around: Surroundings) -> str:
    """What the newest warning about the pod says, or the container that waits."""
    about = [event for event in around.warnings if event.involved_object.uid == pod.metadata.uid]
    if about:
        newest = max(about, key=lambda event: event.last_timestamp or event.metadata.creation_timestamp or 0)
        return f"{newest.reason}: {newest.message}"
    for status in pod.status.container_statuses:
        waiting = status.state.waiting if status.state is not None else None
        if waiting is not None and waiting.message:
            return f"{status.name}: {waiting.reason}: {waiting.message}"
    return ""
