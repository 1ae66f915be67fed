"""A pod, or claims alone, before the scheduler's filters and the allocator; and the nodes, group by group.

Nodes are alike if the same filters refuse them in the same words, and the same number of devices is left after each
test. What costs a search is worked out for the groups that are shown, not for every node.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final

from cathedra.allocation import Allocation, AllocationError, NodeError, PreparedRequests, Refusal
from cathedra.allocation.refusal import RefusalExplanation
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.resource import ResourceClaim
from cathedra.insight.explanation.funnels import AttributeCounts, funnels, options_of
from cathedra.insight.explanation.report import NodeGroup, RequestFunnel
from cathedra.insight.reading.state import ClusterState
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
    """Errors that differ in the device they name are one cause."""
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
    refused = [
        node for node in nodes if node.metadata.name in judgement.devices or judgement.outside.get(node.metadata.name)
    ]
    kinds = _kinds(prepared, refused, judgement)
    counts: dict[object, RefusalExplanation | None] = {}
    groups: dict[object, _Signature] = {}
    for node, kind in zip(refused, kinds, strict=True):
        name = node.metadata.name
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
        groups.setdefault(made.key, made).members.append(node)
    ordered = sorted(groups.values(), key=lambda one: one.nearness)
    attributes = AttributeCounts(prepared.allocator) if prepared is not None and ordered else None
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
    return Analysis(
        analysis.state,
        analysis.filters,
        analysis.pod,
        judgement,
        prepared,
        analysis.claims,
        tuple(found),
        analysis.fitting,
        tuple(one.members[0] for one in ordered),
    )


def _kinds(prepared: PreparedRequests | None, nodes: Sequence[Node], judgement: Judgement) -> Sequence[object]:
    """Return numbers that nodes share if they have equal results in the allocator."""
    if prepared is None:
        return [0] * len(nodes)
    try:
        answers = prepared.on_each(nodes)
    except AllocationError:
        # If the search fails, nodes with equal errors are one group.
        statuses = (judgement.devices.get(node.metadata.name) for node in nodes)
        return [error_shape(status.message) if status is not None else None for status in statuses]
    return [answers.kind(place) for place in range(len(nodes))]


def _counts(prepared: PreparedRequests, node: Node, *, trials: bool = False) -> RefusalExplanation | None:
    try:
        return prepared.reasons(node, trials=trials)
    except AllocationError:
        return None
