"""State of DynamicResources in the cycle of one pod, and the use of claims that are already allocated."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec

from cathedra.allocation import (
    Allocation,
    Answers,
    FatalError,
    NodeError,
    PreparedRequests,
    Refusal,
    SearchAllowance,
)
from cathedra.api.core.core_v1 import Node, NodeSelector
from cathedra.api.resource import AllocationResult, ResourceClaim
from cathedra.api.selectors import node_selector_matches
from cathedra.scheduler.dynamicresources.extended_resources import (
    Demand,
)
from cathedra.scheduler.dynamicresources.suppositions import SupposedDevices
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.narrowing import Narrowing
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.snapshot import Snapshot


class Placement(msgspec.Struct, frozen=True):
    """Nodes on which an allocated claim can be used."""

    selector: NodeSelector | None
    needs_optional_operations: bool
    broken: bool
    """Its binding conditions failed or timed out: no node will do."""

    def allows(self, node: Node) -> bool:
        """Return True if the claim can be used on ``node``."""
        if self.broken:
            return False
        if self.selector is not None and not node_selector_matches(self.selector, node):
            return False
        return not self.needs_optional_operations or "DRAOptionalNodeOperations" in node.status.declared_features


NO_RESOURCES: Final[frozenset[str]] = frozenset()
"""Key of what is found for the claims alone, without extended resources."""
_name_of: Final[Callable[[NodeInfo], str]] = attrgetter("name")
Write = Callable[[], tuple[AllocationResult, ...]]


class FoundAllocations(msgspec.Struct, frozen=True):
    """Allocations found on one node."""

    write: Write
    """Allocations for the unallocated claims in order, the special one last; written out only where they are read.

    Raises `AllocationError` if they cannot be.
    """
    resources: frozenset[str] = frozenset()
    """The extended resources that the special claim would provide there."""
    kind: int | None = None
    """Among the nodes that were searched together, those with one number chose the same sub-requests."""


class Batch:
    """Results of all nodes for one set of requests, computed on demand.

    Every method that computes a result raises `FatalError` if one of the nodes fails the claims.
    """

    __slots__ = ("_answers", "_placed", "_refusals", "_snapshot")

    def __init__(self, answers: Answers, snapshot: Snapshot) -> None:
        self._answers = answers
        self._snapshot = snapshot
        self._refusals: dict[int, Refusal] = {}
        self._placed: tuple[Collection[NodeInfo], list[int]] = ((), [])
        """The nodes whose places were read last. Those of a pod that fits on none of them are read twice."""

    def fitting(self, nodes: Sequence[NodeInfo]) -> Set[NodeInfo]:
        """Return those of ``nodes`` on which the claims fit, and possibly others."""
        # Fast path: for an empty cluster no set is built per pod.
        if self._answers.everywhere:
            return self._snapshot.all_nodes
        fitting = self._answers.fitting(self._places(nodes))
        if len(fitting) == len(nodes):
            return frozenset(nodes)
        known = self._snapshot.nodes
        return frozenset(map(known.__getitem__, fitting))

    @property
    def everywhere(self) -> bool | None:
        """True if the claims are known to fit on all nodes, False if on none, else None. Nothing is computed."""
        return self._answers.everywhere

    def kinds(self, nodes: Collection[NodeInfo]) -> list[int]:
        """Return a number for each node; nodes with the same result have the same number."""
        return self._answers.kinds_of(self._places(nodes))

    def write(self, node: str) -> tuple[AllocationResult, ...]:
        """Return the allocations of the claims on ``node``, on which they fit.

        Raises:
            AllocationError: it cannot be written out.
        """
        answer = self._answers[self._snapshot.places[node]]
        if isinstance(answer, Allocation):
            return answer.results
        raise answer if isinstance(answer, NodeError) else FatalError(str(answer))

    def allocations(self, node: str) -> tuple[AllocationResult, ...] | None:
        """Return the allocations of the claims on ``node``; None if they do not fit there.

        Raises:
            AllocationError: it cannot be written out.
        """
        answer = self._answers.at(self._snapshot.places[node])
        return answer.results if isinstance(answer, Allocation) else None

    def found(self, node: str, resources: frozenset[str] = NO_RESOURCES) -> FoundAllocations | None:
        """Return what was found on ``node``; None if the claims do not fit there."""
        kind = self._answers.fitting_kind(self._snapshot.places[node])
        return None if kind is None else FoundAllocations(partial(self.write, node), resources, kind)

    def refusal(self, node: str) -> Refusal:
        """Return the reasons why the claims do not fit on ``node``.

        Raises:
            NodeError: the node is out.
        """
        answer = self._look(self._snapshot.places[node])
        if isinstance(answer, Refusal):
            return answer
        raise answer.with_traceback(None)  # it is kept, and its traceback would grow with each raise

    def refused(self, nodes: Collection[NodeInfo]) -> Collection[NodeInfo]:
        """Return those of ``nodes`` whose search was finished and without an error. The claims fit on none of
        ``nodes``."""
        places = self._places(nodes)
        if self._answers.all_refuse(places):
            return nodes
        ended: dict[int, bool] = {}
        refused: list[NodeInfo] = []
        for info, place in zip(nodes, places, strict=True):
            kind = self._answers.kind(place)
            if kind not in ended:
                answer = self._look(place)
                ended[kind] = isinstance(answer, Refusal) and not answer.stopped
            if ended[kind]:
                refused.append(info)
        return refused

    def _places(self, nodes: Collection[NodeInfo]) -> list[int]:
        known, places = self._placed
        if known is not nodes:
            places = list(map(self._snapshot.places.__getitem__, map(_name_of, nodes)))
            self._placed = nodes, places
        return places

    def _look(self, place: int) -> Refusal | NodeError:
        """Nodes that look alike share a refusal; an error is each node's own."""
        kind = self._answers.kind(place)
        known = self._refusals.get(kind)
        if known is not None:
            return known
        answer = self._answers[place]
        # An error names its node, so nodes of one class cannot share it.
        if isinstance(answer, NodeError):
            return answer
        assert isinstance(answer, Refusal), "asked about nodes that do not fit"
        self._refusals[kind] = answer
        return answer


class GroupClaims(msgspec.Struct):
    """Decisions that the pods of a PodGroup share while they are tried together."""

    decided: dict[str, AllocationResult] = msgspec.field(default_factory=dict)
    """Claim UID → the allocation that a pod of the group has reserved; the others use it too."""
    writing: defaultdict[str, asyncio.Lock] = msgspec.field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Claim UID → held by the pod that is writing it: the first writes the allocation, the others find it."""
    held: dict[str, list[ClaimCycle]] = msgspec.field(default_factory=dict)
    """Node → the cycles of the group's pods that hold devices there, in the order in which they were tried."""


class Repacking(msgspec.Struct, frozen=True):
    """Allocations of all claims of a group on one node, decided together."""

    others: Sequence[tuple[ResourceClaim, AllocationResult]]
    """The claims of pods that are held on the node already, with the devices that they would get instead."""
    own: tuple[AllocationResult, ...]
    """The allocations of the pod's own claims."""


class ClaimCycle(msgspec.Struct):
    """One pod's claims in one cycle."""

    claims: list[ResourceClaim]
    """The user's claims in the order of the pod's spec."""
    demand: Demand | None = None
    """Extended resources that devices may provide."""
    attempt: Attempt | None = None
    """The attempt that the cycle is a turn of."""
    placements: dict[int, Placement] = msgspec.field(default_factory=dict)
    """Index → where that claim can be used; the others have no allocation yet."""
    unavailable: frozenset[int] = frozenset()
    """Claims that were unusable on some node."""
    prepared: dict[frozenset[str], PreparedRequests] = msgspec.field(default_factory=dict)
    """Extended resources to be had from devices → the allocator's work for them and the unallocated claims."""
    batch_nodes: Snapshot | None = None
    """The nodes of the snapshot, if many of them will be filtered."""
    everywhere: bool | None = None
    """True if the claims are known to fit on all nodes of the snapshot, False if on none."""
    one_by_one: bool = False
    """True if each node is searched by itself, because one of them fails the claims."""
    batches: dict[frozenset[str], Batch] = msgspec.field(default_factory=dict)
    """Extended resources that devices must provide → the results of all nodes."""
    narrowing: Narrowing | None = None
    """Demands of the search beyond those of the claims."""
    supposed: SupposedDevices | None = None
    """Devices of a trial of preemption; None: those of the cluster."""
    results: dict[str, FoundAllocations] = msgspec.field(default_factory=dict)
    """Node → what was found there."""
    group: GroupClaims | None = None
    """Set while the pod is tried together with others of its PodGroup."""
    together: bool = False
    """True if decisions for other pods of the group may be changed so that the pod fits."""
    repackings: dict[str, Repacking] = msgspec.field(default_factory=dict)
    """Node → the allocations with which the claims fit there, if other pods of the group change theirs."""
    shared: dict[str, AllocationResult] = msgspec.field(default_factory=dict)
    """Claim UID → the allocation that another pod of the group has decided in this cycle."""
    chosen: dict[str, AllocationResult] = msgspec.field(default_factory=dict)
    """Claim UID → the allocation to be written, after Reserve."""
    special: ResourceClaim | None = None
    """The claim for extended resources, after Reserve; in memory until PreBind creates it."""
    special_resources: frozenset[str] = frozenset()
    """The extended resources that the special claim provides."""
    special_created: bool = False
    """True if the special claim exists in the API."""
    counted: bool = False
    """True if the pod's status may have the amounts that its devices take of the node."""
    uncertain: bool = False
    """True if something may have been written although no response came."""

    def found(self, node: str) -> FoundAllocations | None:
        """Return the allocations found on ``node``, by its own filter or in a batch before."""
        found = self.results.get(node)
        if found is not None or self.batch_nodes is None:
            return found
        resources = NO_RESOURCES if self.demand is None else self.demand.from_devices(self.batch_nodes.by_name[node])
        batch = self.batches.get(resources) if resources is not None else None
        return None if batch is None else batch.found(node, resources or NO_RESOURCES)

    def decision(self, node: str) -> tuple[tuple[AllocationResult, ...], frozenset[str]] | None:
        """Return the allocations found on ``node``, written out, and the extended resources that the last one provides;
        None if nothing was found.

        Raises:
            AllocationError: they cannot be written out.
        """
        if self.demand is None and node not in self.results and (batch := self.batches.get(NO_RESOURCES)) is not None:
            # Fast path of the code below for the usual kind of result.
            allocations = batch.allocations(node)
            return None if allocations is None else (allocations, NO_RESOURCES)
        found = self.found(node)
        return None if found is None else (found.write(), found.resources)

    def to_allocate(self, resources: frozenset[str]) -> Sequence[ResourceClaim]:
        """Return the unallocated claims, with one for extended resources that devices must provide."""
        claims = self.unallocated
        if resources and self.demand is not None:
            claims = [*claims, self.demand.claim(resources)]
        return claims if self.narrowing is None else self.narrowed(claims)

    def batch(self, resources: frozenset[str], prepared: PreparedRequests) -> Batch | None:
        """Return the results of all nodes; None if nodes are searched one by one."""
        snapshot = self.batch_nodes
        if snapshot is None or self.one_by_one:
            return None
        batch = self.batches.get(resources)
        if batch is None:
            batch = self.batches[resources] = Batch(prepared.among(snapshot.api_nodes()), snapshot)
        return batch

    def batch_of(
        self, resources: frozenset[str], prepared: PreparedRequests, nodes: Sequence[NodeInfo]
    ) -> tuple[Batch, Set[NodeInfo]] | None:
        """Return the results of all nodes, and those of ``nodes`` on which the claims fit; None if nodes are searched
        one by one."""
        batch = self.batch(resources, prepared)
        if batch is None:
            return None
        try:
            return batch, batch.fitting(nodes)
        except FatalError:
            # One node fails the claims. The error counts only if the search reaches that node, so nodes are searched
            # one by one.
            self.one_by_one = True
            return None

    def kinds(self, nodes: Sequence[NodeInfo]) -> list[int] | None:
        """Return for each of ``nodes``, on all of which the claims fit, a number that is equal for equal choices of
        sub-requests; None if it is not known."""
        batch = self.batches.get(NO_RESOURCES)
        if batch is None or self.demand is not None or self.results:
            return None
        return batch.kinds(nodes)

    def allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        """Return the allocation of ``claim`` that is stored, or was decided for another pod of the group."""
        return claim.status.allocation or self.shared.get(claim.metadata.uid)

    @property
    def unallocated(self) -> list[ResourceClaim]:
        """The user's claims that need devices."""
        # Fast path: the list itself, without a copy, for a pod whose claims are all new.
        if not self.placements:
            return self.claims
        return [claim for index, claim in enumerate(self.claims) if index not in self.placements]

    def narrowed(self, claims: Sequence[ResourceClaim]) -> Sequence[ResourceClaim]:
        """Return claims as they are searched in this cycle."""
        return claims if self.narrowing is None else [self.narrowing.claim(claim) for claim in claims]

    @property
    def allowance(self) -> Attempt | SearchAllowance | None:
        """The attempt whose time the searches use, or an allowance of their own."""
        return self.attempt if self.narrowing is None else self.narrowing.allowance or self.attempt

    @property
    def is_optional(self) -> bool:
        """True if a search without preferred constraints follows, which reports errors and time-outs."""
        return self.narrowing is not None and bool(self.narrowing.wishes)

    @property
    def all_claims(self) -> list[ResourceClaim]:
        """The user's claims, and the special one if there is one."""
        return [*self.claims, self.special] if self.special is not None else self.claims


# --- score


LONGEST_LIST = 8
"""Largest number of alternatives in a request, which is the score of the first one."""


def preference(claim: ResourceClaim, allocation: AllocationResult | None) -> int:
    """Return 8 for every list whose first alternative was chosen, 7 for the second, and so on."""
    if allocation is None:
        return 0
    taken = {result.request for result in allocation.devices.results}
    worth = 0
    for request in claim.spec.devices.requests or ():
        for index, sub in enumerate(request.first_available):
            if f"{request.name}/{sub.name}" in taken:
                worth += LONGEST_LIST - index
                break
    return worth


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds; the arguments of the plugin in a scheduler's configuration."""

    filter: float = 10.0
    """For the allocator on one node; 0 is no limit."""
    binding: float = 600.0
    """Until devices' binding conditions must be true."""


DEFAULT_TIMEOUTS: Final = Timeouts()


def preferences(cycle: ClaimCycle, unallocated: Sequence[ResourceClaim], nodes: Sequence[NodeInfo]) -> Iterator[int]:
    """Yield the preference score of each of ``nodes`` for the allocations found there."""
    known: dict[tuple[frozenset[str], int | None], int] = {}
    for node in nodes:
        found = cycle.found(node.name) or FoundAllocations(tuple)
        alike = (found.resources, found.kind)
        if found.kind is None or alike not in known:
            known[alike] = sum(map(preference, unallocated, found.write()))
        yield known[alike]


def has_prioritized_list(claims: Iterable[ResourceClaim]) -> bool:
    """Return True if some request is a prioritized list."""
    for claim in claims:
        for request in claim.spec.devices.requests or ():
            if request.first_available:
                return True
    return False
