"""A pod, or claims alone, before the scheduler's filters and the allocator; and the nodes, group by group.

Nodes are alike if the same filters refuse them in the same words, and the same number of devices is left after each
test. What costs a search is worked out for the groups that are shown, not for every node.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from cathedra.allocation import (
    Allocation,
    AllocationError,
    ConstraintReason,
    NodeError,
    PreparedRequests,
    Refusal,
    RequestReason,
)
from cathedra.allocation.checks.selectors import SelectorList
from cathedra.allocation.claims.requests import Obstacle, RequestOption
from cathedra.allocation.refusal import RefusalExplanation
from cathedra.allocation.supply.caches import CacheSlot, LRUCache
from cathedra.allocation.supply.inventory import InventorySnapshot
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.resource import ResourceClaim
from cathedra.insight.explanation.report import FunnelStep, NodeGroup, RequestFunnel, SelectorFunnel
from cathedra.insight.reading.state import ClusterState
from cathedra.printable import counted
from cathedra.scheduler.judging import Filters, Judgement, Status, device_error, device_refusal

SHOWN: Final = 8
"""Number of node groups whose requests are described in full."""
_COUNTED: Final = 600
"""Different answers that are counted before nodes are called alike without looking."""


@dataclass(frozen=True)
class Analysis:
    """Verdict of filters and allocator; ``groups`` begins with those that are nearest to fitting."""

    state: ClusterState
    filters: Filters | None
    pod: Pod | None
    judgement: Judgement
    prepared: PreparedRequests | None
    claims: tuple[ResourceClaim, ...]
    """The claims to be allocated, in the allocator's order."""
    groups: tuple[NodeGroup, ...] = ()
    fitting: tuple[str, ...] = ()
    representatives: tuple[Node, ...] = field(default=(), repr=False)
    """One node of each group in ``groups``."""

    def nodes(self, names: Container[str]) -> tuple[Node, ...]:
        """Return the nodes of these names, in the order of the state."""
        return tuple(node for node in self.state.nodes if node.metadata.name in names)


def analyse_pod(state: ClusterState, pod: Pod, filters: Filters, only: frozenset[str] | None = None) -> Analysis:
    """Run the scheduler's filters on a pod whose claims are in the state."""
    judgement = filters.judge(pod, only=only)
    cycle = judgement.cycle
    prepared: PreparedRequests | None = None
    claims: tuple[ResourceClaim, ...] = ()
    if cycle is not None:
        claims = tuple(cycle.unallocated)
        # With extended resources there is one preparation per set of resources; any of them explains the claims.
        prepared = cycle.prepared.get(frozenset()) or next(iter(cycle.prepared.values()), None)
        if prepared is not None:
            # The order of the plans is that of the allocator, and with it that of the requests in texts.
            claims = tuple(plan.claim for plan in prepared.plans)
    found = Analysis(state, filters, pod, judgement, prepared, claims, fitting=judgement.fitting)
    return _grouped(found, [node for node in state.nodes if only is None or node.metadata.name in only])


def analyse_claims(
    state: ClusterState, claims: Sequence[ResourceClaim], only: frozenset[str] | None = None
) -> Analysis:
    """Run the allocator alone on claims, as if a pod without other requirements used them.

    Exceptions of the allocator become refusals of nodes.
    """
    nodes = [node for node in state.nodes if only is None or node.metadata.name in only]
    prepared = state.cluster.allocator().prepare(claims)
    answers = zip(nodes, _statuses(prepared, nodes), strict=True)
    refused = {node.metadata.name: answer for node, answer in answers if answer is not None}
    judgement = Judgement(devices=refused, nodes=tuple(node.metadata.name for node in nodes))
    found = Analysis(state, None, None, judgement, prepared, tuple(claims), fitting=judgement.fitting)
    return _grouped(found, nodes)


_NO_FIT: Final = device_refusal("cannot allocate all claims")
_TIMED_OUT: Final = device_refusal("timed out trying to allocate devices")


def _statuses(prepared: PreparedRequests, nodes: Sequence[Node]) -> Sequence[Status | None]:
    """None where the claims fit, the refusal elsewhere."""
    try:
        answers = prepared.on_each(nodes)
    except AllocationError:
        # A fatal error ends a batch at its first node. Searched one by one, the other nodes still have results.
        return [_status_on(prepared, node) for node in nodes]
    fitting = set(answers.fitting())
    texts: dict[int, Status] = {}
    found: list[Status | None] = []
    for place in range(len(nodes)):
        kind = answers.kind(place)
        if place in fitting:
            found.append(None)
            continue
        if kind not in texts:
            texts[kind] = _status_of(answers[place]) or _NO_FIT
        found.append(texts[kind])
    return found


def _status_of(answer: Allocation | Refusal | NodeError) -> Status | None:
    if isinstance(answer, Allocation):
        return None
    if isinstance(answer, NodeError):
        return device_refusal(str(answer))
    return _TIMED_OUT if answer.stopped else _NO_FIT


def _status_on(prepared: PreparedRequests, node: Node) -> Status | None:
    try:
        return _status_of(prepared.on(node))
    except NodeError as problem:
        return device_refusal(str(problem))
    except AllocationError as broken:
        return device_error(str(broken))


class _Signature:
    """Key of a group of nodes, with the counts from which its funnels are made."""

    def __init__(
        self, outside: tuple[str, ...], refusal: str, counts: RefusalExplanation | None, *, broken: bool
    ) -> None:
        self.outside, self.refusal, self.counts, self.broken = outside, refusal, counts, broken
        self.key = (outside, error_shape(refusal), _numbers(counts))
        self.members: list[Node] = []

    @property
    def nearness(self) -> tuple[bool, int, int, int]:
        """Sorts groups: errors, which end the search for all nodes, come first; else the fewer refusals from outside
        and the more devices are left, the nearer."""
        left = sum(min(one.available, one.wanted) for one in self.counts.requests) if self.counts else -1
        return not self.broken, len(self.outside), -left, -len(self.members)


def error_shape(text: str) -> str:
    """Return the text with its device left out: errors that differ in it alone are one cause."""
    return re.sub(r" on device \S+:", " on device …:", text)


def _numbers(counts: RefusalExplanation | None) -> object:
    if counts is None:
        return None
    return tuple(
        (
            *(one.wanted, one.in_reach, one.class_passed, one.selected, one.on_node, one.free, one.tolerated),
            *(one.with_capacity, one.with_counters, one.constraint_values),
            *(tuple(rule.values.items()) for rule in one.constraints),
            *one.taints,
            *one.unusable_pools.values(),
        )
        for one in counts.requests
    )


def _grouped(analysis: Analysis, nodes: Sequence[Node]) -> Analysis:
    judgement, prepared = analysis.judgement, analysis.prepared
    ordered = sorted(_signatures(prepared, judgement, nodes), key=lambda one: one.nearness)
    attributes = AttributeCounts.of(prepared.allocator.inventory) if prepared is not None and ordered else None
    found: list[NodeGroup] = []
    if judgement.passing:
        found.append(NodeGroup(judgement.passing, fits=True))
    for place, one in enumerate(ordered):
        requests: tuple[RequestFunnel, ...] = ()
        if one.counts is not None and prepared is not None and attributes is not None:
            # Trials are searches, so they are made for the groups that are shown.
            full = (_counts(prepared, one.members[0], trials=True) if place < SHOWN else None) or one.counts
            requests = tuple(funnels(full, options_of(prepared), prepared, attributes))
        names = tuple(node.metadata.name for node in one.members)
        found.append(NodeGroup(names, False, one.outside, one.refusal, requests))
    examples = tuple(one.members[0] for one in ordered)
    return dataclasses.replace(analysis, groups=tuple(found), representatives=examples)


def _signatures(
    prepared: PreparedRequests | None, judgement: Judgement, nodes: Sequence[Node]
) -> Collection[_Signature]:
    """Return the groups of refused nodes that have the same refusals and counts."""
    refused = [
        node for node in nodes if node.metadata.name in judgement.devices or judgement.outside.get(node.metadata.name)
    ]
    kinds = _kinds(prepared, nodes, refused, judgement)
    counts: dict[object, RefusalExplanation | None] = {}
    groups: dict[object, _Signature] = {}
    # Mostly thousands of nodes share a result and the refusals. Statuses are compared by identity, as those of one
    # plugin are mostly one object; equal ones meet in ``groups``.
    known: dict[tuple[object, ...], _Signature] = {}
    for node, kind in zip(refused, kinds, strict=True):
        name = node.metadata.name
        refusals = (judgement.devices.get(name), *judgement.outside.get(name, ()))
        alike = (kind, *map(id, refusals))
        if (group := known.get(alike)) is not None:
            group.members.append(node)
            continue
        if kind not in counts:
            # Counting devices takes milliseconds per class. Beyond the limit groups are formed by the refusals alone.
            worth = prepared is not None and len(counts) < _COUNTED and name in judgement.devices
            counts[kind] = _counts(prepared, node) if worth and prepared is not None else None
        outside = tuple(
            f"{reason} ({status.plugin})" for status in judgement.outside.get(name, ()) for reason in status.reasons
        )
        status = judgement.devices.get(name)
        refusal = status.message if status is not None else ""
        broken = status is not None and not status.rejected and not outside
        made = _Signature(outside, refusal, counts[kind] if refusal else None, broken=broken)
        group = known[alike] = groups.setdefault(made.key, made)
        group.members.append(node)
    return groups.values()


def _kinds(
    prepared: PreparedRequests | None, nodes: Sequence[Node], refused: Sequence[Node], judgement: Judgement
) -> Sequence[object]:
    """Return numbers that nodes share if they have equal results in the allocator, for those that are ``refused``."""
    if prepared is None:
        return [0] * len(refused)
    # All nodes in the order of the judgement: of another list the allocator would compute the class of each node anew.
    by_name = {node.metadata.name: node for node in nodes}
    places = {name: place for place, name in enumerate(judgement.nodes)}
    try:
        answers = prepared.on_each([by_name[name] for name in judgement.nodes])
    except AllocationError:
        # If the search fails, nodes with equal errors are one group.
        statuses = (judgement.devices.get(node.metadata.name) for node in refused)
        return [error_shape(status.message) if status is not None else None for status in statuses]
    return answers.kinds_of([places[node.metadata.name] for node in refused])


def _counts(prepared: PreparedRequests, node: Node, *, trials: bool = False) -> RefusalExplanation | None:
    try:
        return prepared.reasons(node, trials=trials)
    except AllocationError:
        return None


# Funnels: the number of devices that are left for each request after each test, on one node.
#
# The counts are the allocator's own (`cathedra.allocation.refusal`). Here the texts of the selectors, the attributes
# that these read, and a sentence are added.

Options = Mapping[tuple[str, str], RequestOption]
"""By «claim NAMESPACE/NAME» and request."""
_HOLDERS: Final = 2
"""Holders that are named in a sentence; more are counted."""


class AttributeCounts:
    """Number of devices of the cluster on which an attribute is set, for each attribute; counted on first access."""

    def __init__(self, inventory: InventorySnapshot) -> None:
        self._inventory = inventory
        self._counts: dict[str, int] = {}

    @staticmethod
    def of(inventory: InventorySnapshot) -> AttributeCounts:
        """Return the counts of an inventory, which are kept with it: the pods of a cluster have the same devices."""
        return inventory.caches.of(_ATTRIBUTE_COUNTS).get(inventory, lambda: AttributeCounts(inventory))

    @cached_property
    def devices(self) -> int:
        """Return the number of devices."""
        return sum(len(one.devices) for records in self._inventory.pools.values() for one in records)

    def count(self, name: str) -> int:
        """Return on how many devices the attribute of that qualified name is set."""
        if name not in self._counts:
            self._counts[name] = sum(
                device.signature.attribute(name) is not None
                for records in self._inventory.pools.values()
                for one in records
                for device in one.devices
            )
        return self._counts[name]

    def read_by(self, expression: str) -> Mapping[str, int]:
        """Return the attributes that a selector reads by name, with their counts; none if its text does not determine
        them."""
        names = SelectorList((), (expression,)).projection or ()
        return {name: self.count(name) for name in names}


_ATTRIBUTE_COUNTS: Final[CacheSlot[LRUCache[InventorySnapshot, AttributeCounts]]] = CacheSlot(
    "attribute counts", lambda: LRUCache(1)
)


def options_of(prepared: PreparedRequests) -> Options:
    """Return the requests of prepared claims, and their sub-requests."""
    return {
        (plan.where, option.name): option
        for plan in prepared.plans
        for request in plan.requests
        for option in request.options
        if not isinstance(option, Obstacle)
    }


def funnels(
    found: RefusalExplanation, options: Options, prepared: PreparedRequests, attributes: AttributeCounts
) -> Iterator[RequestFunnel]:
    """Yield the funnels of all requests, in their order."""
    for reason in found.requests:
        option = options[reason.claim, reason.request]
        yield RequestFunnel(
            claim=reason.claim.removeprefix("claim "),
            request=reason.request,
            device_class=option.device_class.metadata.name,
            wanted=reason.wanted,
            all_devices=option.all_devices,
            steps=tuple(_steps(reason, option)),
            selectors=tuple(_selectors(reason, expressions(option, prepared), attributes)),
            holders=dict(sorted(reason.holders.items(), key=lambda item: (-item[1], item[0]))),
            taints=reason.taints,
            constraints=tuple(_constraints(reason)),
            obstacle=obstacle(reason),
            text=sentence(reason, option, attributes),
            shortage=_shortage(reason),
        )


def obstacle(reason: RequestReason) -> str:
    """Return the first test that leaves too few; "" if nothing is wrong with the request by itself."""
    if reason.fits_alone is None and reason.obstacle in ("constraint", "combination"):
        return ""  # not decided: the search was stopped
    tied = _shortage(reason) or any(one.decisive for one in reason.constraints)
    if reason.obstacle == "other requests" and not tied:
        return ""
    return reason.obstacle


def expressions(option: RequestOption, prepared: PreparedRequests) -> Sequence[str]:
    """Return the selectors of a request in the order of their origins: the class's, then its own."""
    request = (prepared.plans[option.claim].claim.spec.devices.requests or ())[option.request]
    own = request.first_available[option.sub].selectors if request.first_available else ()
    if request.exactly is not None:
        own = request.exactly.selectors
    return [one.cel.expression if one.cel is not None else "" for one in (*option.device_class.spec.selectors, *own)]


def _steps(reason: RequestReason, option: RequestOption) -> Iterator[FunnelStep]:
    before = reason.in_reach
    yield FunnelStep("in reach", before, 0, _pools(reason))
    for test, left, detail in (
        ("without binding conditions", reason.bound, ""),
        (f"of class {option.device_class.metadata.name}", reason.class_passed, ""),
        ("matching the request's selectors", reason.selected, ""),
        ("meant for the node", reason.on_node, ""),
        ("free", reason.free, holders_text(reason.holders)),
        ("usable by the node's kubelet", reason.operable, ""),
        ("without an untolerated taint", reason.tolerated, ", ".join(f"{n} × {t}" for t, n in reason.taints.items())),
        ("with enough capacity", reason.with_capacity, _wanted_capacity(option)),
        ("with enough counters", reason.with_counters, ""),
        ("with the attributes of constraints", reason.constraint_values, ""),
    ):
        always = test.startswith(("of class", "matching", "free"))
        if always or left != before:
            yield FunnelStep(test, left, before - left, detail if left != before else "")
        before = left


def _selectors(reason: RequestReason, texts: Sequence[str], attributes: AttributeCounts) -> Iterator[SelectorFunnel]:
    for one, text in zip(reason.selectors, texts, strict=True):
        decided = one.passed < one.asked
        yield SelectorFunnel(
            one.origin,
            one.index,
            text,
            one.asked,
            one.passed,
            one.missing,
            one.errors,
            attributes.read_by(text) if decided else {},
        )


def _constraints(reason: RequestReason) -> Iterator[str]:
    for one in reason.constraints:
        missing = f"; not set on {counted(one.missing, 'device')}" if one.missing else ""
        verb = "agree" if one.kind == "matchAttribute" else "differ"
        yield f"{one}: at most {one.together} {verb}; values: {_values(one)}{missing}"


def _pools(reason: RequestReason) -> str:
    return "; ".join(f"pool {name} is {why}" for name, why in reason.unusable_pools.items())


def _wanted_capacity(option: RequestOption) -> str:
    return ", ".join(f"{name}: {amount} wanted" for name, amount in (option.capacity or {}).items())


def holders_text(holders: Mapping[str, int]) -> str:
    """Return the holders of the other devices as text."""
    if not holders:
        return ""
    ordered = sorted(holders, key=lambda name: (-holders[name], name))
    more = len(ordered) - _HOLDERS
    named = ", ".join(f"{name} ({holders[name]})" if holders[name] > 1 else name for name in ordered[:_HOLDERS])
    return f"held by {named}" + (f" and {more} more" if more > 0 else "")


def sentence(reason: RequestReason, option: RequestOption, attributes: AttributeCounts) -> str:
    """Return the problem of a request on the node in one sentence."""
    wanted = "all" if option.all_devices else str(reason.wanted)
    return f"request {reason.request!r} needs {wanted}{_obstacle_text(reason, option, attributes)}"


def _obstacle_text(reason: RequestReason, option: RequestOption, attributes: AttributeCounts) -> str:
    match reason.obstacle:
        case "reach":
            return _with(f", {counted(reason.in_reach, 'device')} in reach", _pools(reason))
        case "binding conditions":
            return ", but all devices have binding conditions, and the feature is off"
        case "class":
            of_class = f"of class {option.device_class.metadata.name}"
            return f", {reason.class_passed} of {counted(reason.bound, 'device')} in reach are {of_class}"
        case "selectors":
            of_class = counted(reason.class_passed, "device")
            text = f", {reason.selected} of {of_class} of its class match its selectors"
            return _with(text, _unset(option, attributes))
        case "node selection":
            matching = counted(reason.selected, "matching device")
            return f", {reason.on_node} of {matching} are meant for the node"
        case "allocated":
            matching = counted(reason.on_node, "matching device")
            return _with(f", {reason.free} of {matching} are free", holders_text(reason.holders))
        case "node operations":
            free = counted(reason.free, "free device")
            return f", {reason.operable} of {free} can be used by the node's kubelet"
        case "taints":
            free = counted(reason.operable, "free device")
            return _with(f", {reason.tolerated} of {free} have no untolerated taint", ", ".join(reason.taints))
        case "capacity":
            free = counted(reason.tolerated, "free device")
            return _with(f", {reason.with_capacity} of {free} have enough capacity left", _wanted_capacity(option))
        case "counters":
            free = counted(reason.with_capacity, "free device")
            return (
                f", {reason.with_counters} of {free} have enough left of the counters that they share with "
                "allocated devices"
            )
        case "constraint attributes":
            unset = [f"{one.attribute} is not set on {one.missing}" for one in reason.constraints if one.missing]
            left = counted(reason.with_counters, "device")
            text = f", {reason.constraint_values} of {left} have what constraints compare"
            return _with(text, ", ".join(unset))
        case "constraint":
            worst = min(reason.constraints, key=lambda one: one.together)
            verb = "agree in" if worst.kind == "matchAttribute" else "differ in"
            return f", but only {worst.together} of the devices left {verb} {worst.attribute}: {_values(worst)}"
        case other:
            return _together(reason, alone=other == "other requests")


def _together(reason: RequestReason, *, alone: bool) -> str:
    if alone and reason.short is not None:
        return _with(f": it fits alone, but {reason.short.shortage}", str(reason.short.group))
    decisive = [one for one in reason.constraints if one.decisive]
    if not alone:
        under = f" under {', '.join(map(str, decisive))}" if decisive else ""
        return f": {counted(reason.available, 'device')} would do one by one, but not together{under}"
    if decisive:
        clash = "; ".join(f"{one} (it could have {_values(one)})" for one in decisive)
        return f": it fits alone, but not together with the others under {clash}"
    return ": it fits alone, but the other requests take what it needs"


def _shortage(reason: RequestReason) -> str:
    return reason.short.shortage if reason.obstacle == "other requests" and reason.short is not None else ""


def _with(text: str, detail: str) -> str:
    return f"{text} ({detail})" if detail else text


def _values(constraint: ConstraintReason) -> str:
    return ", ".join(f"{value} ({count})" for value, count in constraint.values.items()) or "no value"


def _unset(option: RequestOption, attributes: AttributeCounts) -> str:
    """Attributes that no device has, or nearly none."""
    counts = {name: attributes.count(name) for name in option.question.projection or ()}
    total = counted(attributes.devices, "device")
    rare = {name: count for name, count in counts.items() if count * 10 < attributes.devices}
    return "; ".join(f"attribute {name} is set on {count:,} of {total}" for name, count in rare.items())
