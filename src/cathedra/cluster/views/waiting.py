"""One line with the reason why a pod is pending: its claims, the allocator's refusal, or messages of scheduler and
node.

The scheduler's own message only counts the nodes that failed. A user needs the claim, the check that failed, and the
holders of the devices. Both come from the same allocator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cathedra.allocation import (
    AllocationError,
    Cluster,
    Features,
    NodeError,
    Refusal,
    RequestReason,
    allocate,
    behaviour_of,
)
from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.resource import (
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from cathedra.printable import counted
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.podclaims import claim_names
from cathedra.semantics.podobstacles import deletion_text, obstacles_on_node
from cathedra.semantics.pods import is_terminal

_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']|["']([^"']+)["']\s*==\s*device\.driver""")
_HOLDERS: Final = 2
"""Number of holders to name; further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The cluster around a pod, read at one moment."""

    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[ResourceClaim, ...]
    templates: tuple[ResourceClaimTemplate, ...]
    rules: tuple[DeviceTaintRule, ...]
    warnings: tuple[Event, ...]
    gates: FeatureGates
    """The gates of the cluster, which its scheduler uses too."""

    @property
    def features(self) -> Features:
        """The features of the cluster's allocator."""
        return Features.from_gates(self.gates, behaviour_of(self.gates.release))

    def allocator_view(self) -> Cluster:
        """Return the same objects, for the allocator."""
        objects = [self.nodes, self.slices, self.classes, self.claims, self.templates, self.rules]
        return Cluster.of(objects, self.features)


def why_waiting(pod: Pod, around: Surroundings, cluster: Cluster) -> str:
    """Return the cause in one line, or "" if neither the pod nor one of its containers waits."""
    if is_terminal(pod):
        return ""
    if pod.spec.node_name or pod.status.phase == "Running":
        return _why_on_node(pod, around)
    if pod.spec.scheduling_gates:
        return "waits for its scheduling gates " + ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if any(entry.source is not None for entry in pod.spec.resource_claims):
        # In releases with this field drivers allocate, and only they know their resources.
        return _message_of_scheduler(pod)
    return _missing(pod, around) or _refused(pod, around, cluster) or _message_of_scheduler(pod)


def _why_on_node(pod: Pod, around: Surroundings) -> str:
    """Return the cause for a pod that has its node: it does not start, does not stay up, or does not end."""
    names = set(claim_names(pod))
    node = next((one for one in around.nodes if one.metadata.name == pod.spec.node_name), None)
    claims = [
        one for one in around.claims if one.metadata.namespace == pod.metadata.namespace and one.metadata.name in names
    ]
    obstacle = next(obstacles_on_node(pod, node, claims, around.slices, around.warnings), None)
    if ending := deletion_text(pod):
        return obstacle.text if obstacle is not None else ending
    if pod.status.phase == "Running":
        return obstacle.text if obstacle is not None else ""
    text = obstacle.text if obstacle is not None else ""
    return _bypassed(pod, around) or text or _missing(pod, around) or "its node prepares it"


def _bypassed(pod: Pod, around: Surroundings) -> str:
    """Return the claim that no scheduler has allocated, because the pod named its node itself."""
    names = set(claim_names(pod))
    for claim in around.claims:
        mine = claim.metadata.namespace == pod.metadata.namespace and claim.metadata.name in names
        if mine and claim.status.allocation is None:
            return (
                f"claim {claim.metadata.name!r} is not allocated: only the scheduler allocates claims, and it "
                f"ignores a pod that is created with nodeName {pod.spec.node_name!r}"
            )
    return ""


def _missing(pod: Pod, around: Surroundings) -> str:
    """Return the claim, template, class or driver that the pod needs and that does not exist."""
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
            hint = f"; there is one in {elsewhere}, but a pod uses only those of its own namespace" if elsewhere else ""
            return f"{kind} {name!r} does not exist in namespace {namespace!r}{hint}"
        spec = here.spec.spec if isinstance(here, ResourceClaimTemplate) else here.spec
        if isinstance(here, ResourceClaim) and here.status.allocation is not None:
            continue
        wanted = [
            one for request in spec.devices.requests or () for one in (request.exactly, *request.first_available) if one
        ]
        if cause := _missing_class(f"{kind} {name!r}", wanted, around):
            return cause
    return ""


def _missing_class(who: str, wanted: Iterable[ExactDeviceRequest | DeviceSubRequest], around: Surroundings) -> str:
    classes = {one.metadata.name: one for one in around.classes}
    for request in wanted:
        name = request.device_class_name
        if name not in classes:
            known = ", ".join(sorted(classes)) or "none"
            return f"device class {name!r} of {who} does not exist; known: {known}"
        for where, selectors in ((f"class {name!r}", classes[name].spec.selectors), (who, request.selectors)):
            if cause := _missing_driver(where, selectors, around.slices):
                return cause
    return ""


def _missing_driver(where: str, selectors: Iterable[DeviceSelector], slices: Iterable[ResourceSlice]) -> str:
    """Return the driver that selectors name, if it has published no devices."""
    published = {piece.spec.driver for piece in slices}
    for selector in selectors:
        expression = selector.cel.expression if selector.cel is not None else ""
        named = [first or second for first, second in _DRIVER.findall(expression)]
        if named and published.isdisjoint(named):
            verb = "has" if len(published) == 1 else "have"
            there = (
                f"only {', '.join(sorted(published))} {verb} published devices" if published else "no driver has any"
            )
            return f"no devices of driver {' or '.join(map(repr, named))} ({where}) are published; {there}"
    return ""


def _refused(pod: Pod, around: Surroundings, cluster: Cluster) -> str:
    """Return the allocator's refusal, if no node can have the pod's claims."""
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
    alike = causes.count(most)
    where = f"on {'all ' if alike == len(causes) else ''}{counted(alike, 'node')}"
    return most if len(causes) == 1 else f"{most} ({where})"


def _cause(refusal: Refusal) -> str:
    if refusal.stopped:
        return f"the search was {refusal.stop}"
    reasons = [one for one in refusal.reasons if one.obstacle != "other requests"] or list(refusal.reasons)
    return _sentence(reasons[0]) if reasons else str(refusal)


def _sentence(reason: RequestReason) -> str:
    wanted = counted(reason.wanted, "device") if reason.wanted else "all devices"
    who = f"request {reason.request!r} needs {wanted}"
    match reason.obstacle:
        case "reach":
            return f"{who}: {counted(reason.in_reach, 'device')} in reach" + _pools(reason.unusable_pools)
        case "class":
            return f"{who}: {reason.class_passed} of {reason.bound} devices are of its class"
        case "selectors":
            return f"{who}: {reason.selected} of {reason.class_passed} devices match its selectors"
        case "allocated":
            return f"{who}: {reason.free} of {reason.on_node} matching devices are free, {_holders(reason.holders)}"
        case "taints":
            taints = ", ".join(reason.taints)
            return f"{who}: {reason.tolerated} of {reason.operable} free devices have no untolerated taint ({taints})"
        case "capacity":
            return f"{who}: {reason.with_capacity} of {reason.tolerated} free devices have enough capacity left"
        case "counters":
            return f"{who}: {_counters(reason)}"
        case _:
            return str(reason)


def _counters(reason: RequestReason) -> str:
    """Return how many unallocated devices are usable, and which claims have consumed the counters of the others."""
    unallocated, usable = reason.with_capacity, reason.with_counters
    some = f"only {usable} {_are(usable)}" if usable else "none is"
    if usable:
        counters = f"the counters of the other{'s' if unallocated - usable > 1 else ''}"
    else:
        counters = "its counters" if unallocated == 1 else "their counters"
    holders = reason.counter_holders
    verb = "has" if len(holders) == 1 else "have"
    cause = f"{_named(holders)} {verb} consumed {counters}" if holders else f"{counters} never suffice"
    return f"{unallocated} {_are(unallocated)} unallocated, but {some} usable; {cause}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _holders(holders: Mapping[str, int]) -> str:
    return f"the others are held by {_named(holders)}" if holders else "none is held"


def _named(holders: Mapping[str, int]) -> str:
    more = len(holders) - _HOLDERS
    return ", ".join(list(holders)[:_HOLDERS]) + (f" and {more} more" if more > 0 else "")


def _pools(unusable: Mapping[str, str]) -> str:
    return "".join(f"; pool {name}: {why}" for name, why in unusable.items())


def _message_of_scheduler(pod: Pod) -> str:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is None:
        return "the scheduler has not tried it yet"
    return scheduled.message if scheduled.status == "False" else ""
