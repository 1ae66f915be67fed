"""DynamicResources of 1.26 to 1.30: a pod gets a node when the drivers of its claims have allocated there.

The first cycles only talk: potential nodes are proposed, a node is selected. Drivers answer through the API, which
wakes the pod; a cycle that finds every claim allocated reserves them and lets the pod be bound
(docs/spec/scheduling.md §18.2).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.gates import FeatureGates
from cathedra.api.status import StatusError
from cathedra.classic.resources import CLAIMS, CLASSES, CONTEXTS
from cathedra.classic.scheduling import writing
from cathedra.classic.scheduling.claims import (
    PodClaim,
    Unresolved,
    can_be_reserved,
    is_reserved,
    pod_claims,
    waits_for_consumer,
)
from cathedra.classic.scheduling.hints import ClassicHints
from cathedra.classic.scheduling.negotiation import ForeignContext, Negotiation
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import Informer, SharedInformers
from cathedra.clock import Clock
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from cathedra.scheduler.framework.informed import ClaimPlugin, Notify
from cathedra.scheduler.framework.plugin import (
    CycleState,
    FilterPlugin,
    Nomination,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from cathedra.classic.scheduling.structured import StructuredClaims
    from cathedra.classic.structured.allocation import Stock

__all__ = ["NegotiatedResources", "negotiating_plugin"]

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Of claims that the scheduler allocated."""
_SKIP: Final = Status(Code.SKIP)
_NOT_HERE: Final = unresolvable("resourceclaim not available on the node")
_EXCLUDED: Final = unresolvable("excluded by resource class node filter")
_UNSUITABLE: Final = unresolvable("resourceclaim cannot be allocated for the node (unsuitable)")
_LOG: Final = logging.getLogger(__name__)


class _Cycle:
    """What the plugin remembers of one pod between the extension points."""

    def __init__(self, claims: list[PodClaim], negotiation: Negotiation) -> None:
        self.claims = claims
        self.negotiation = negotiation
        self.stock: Stock | None = None
        """What is free for claims that the scheduler allocates, if there are any."""
        self.unavailable: set[int] = set()
        """Positions of claims that are allocated where the pod cannot go."""

    @property
    def pending(self) -> list[PodClaim]:
        """Claims that drivers have yet to allocate."""
        return [claim for claim in self.claims if claim.pending]


class NegotiatedResources(
    ClaimPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    PostBindPlugin,
):
    """Claims of pods, from the queue to the binding, by negotiation with their drivers."""

    name = "DynamicResources"

    def __init__(self, client: Client, informers: SharedInformers, *, random: Random, gates: FeatureGates) -> None:
        self._client = client
        self._random = random
        self._gates = gates
        self._claims = informers.of(CLAIMS)
        self._classes = informers.of(CLASSES)
        self._contexts = informers.of(CONTEXTS)
        self._hints = ClassicHints(self._claims.store.get)
        self._structured: StructuredClaims | None = None
        if gates.at_least("1.30"):
            # start-up time: CEL, with the one release that has structured parameters
            from cathedra.classic.scheduling.structured import StructuredClaims

            self._structured = StructuredClaims(client, informers)

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Follow claims, classes and scheduling contexts."""
        _forward(self._claims, Resource.RESOURCE_CLAIM, wake)
        _forward(self._classes, Resource.RESOURCE_CLASS, wake)
        _forward(self._contexts, Resource.POD_SCHEDULING_CONTEXT, wake)
        for informer, resource in self._structured.informers() if self._structured is not None else ():
            _forward(informer, resource, wake)

    def events(self) -> Sequence[EventRegistration]:
        """See `ClassicHints`."""
        return self._hints.registrations()

    def backs(self, resource: str) -> bool:
        """Extended resources came to classes later."""
        return False

    # --- before the nodes

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """All claims must be there."""
        try:
            pod_claims(pod.pod, self._claims.store.get)
        except Unresolved as why:
            return unresolvable(str(why))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Looks at everything that is the same on all nodes."""
        try:
            claims = pod_claims(pod.pod, self._claims.store.get)
        except Unresolved as why:
            return unresolvable(str(why))
        if not claims:
            return _SKIP
        metadata = pod.pod.metadata
        try:
            negotiation = Negotiation(pod.pod, self._contexts.store.get(metadata.namespace, metadata.name))
        except ForeignContext as foreign:
            return error(str(foreign))
        for claim in claims:
            refusal = self._usable(claim, pod.pod, negotiation)
            if refusal is not None:
                return refusal
        cycle = state.data[self.name] = _Cycle(claims, negotiation)
        if self._structured is not None and any(claim.structured is not None for claim in claims):
            cycle.stock = self._structured.stock()
        return None

    def _usable(self, claim: PodClaim, pod: Pod, negotiation: Negotiation) -> Status | None:
        """Whether the claim is, or can be, allocated for the pod; fills in where."""
        status = claim.claim.status
        if status.allocation is None and not waits_for_consumer(claim.claim):
            return unresolvable("unallocated immediate resourceclaim")
        if status.deallocation_requested:
            return unresolvable("resourceclaim must be reallocated")
        if status.allocation is not None:
            if not can_be_reserved(claim.claim) and not is_reserved(claim.claim, pod):
                return unresolvable("resourceclaim in use")
            claim.nodes = status.allocation.available_on_nodes
            return None
        return self._allocatable(claim, negotiation)

    def _allocatable(self, claim: PodClaim, negotiation: Negotiation) -> Status | None:
        name = claim.claim.spec.resource_class_name
        found = self._classes.store.get("", name)
        if found is None:
            if self._gates.at_least("1.30"):
                return unresolvable(f"resource class {name} does not exist")
            return error(f'look up resource class: resourceclass.resource.k8s.io "{name}" not found')
        claim.nodes = found.suitable_nodes
        if self._structured is not None and found.structured_parameters:
            return self._structured.prepare(claim, found)
        answer = negotiation.answer(claim.entry)
        claim.informed = answer is not None
        claim.unsuitable = answer or frozenset()
        return None

    # --- for every node

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Whether existing allocations can be used on the node, and no driver or class excludes it."""
        cycle: _Cycle = state.data[self.name]
        unavailable: list[int] = []
        for position, claim in enumerate(cycle.claims):
            if not claim.allows(node.node):
                if claim.claim.status.allocation is None:
                    return _EXCLUDED
                unavailable.append(position)
            elif node.name in claim.unsuitable:
                return _UNSUITABLE
        if self._structured is not None and cycle.stock is not None:
            results = self._structured.allocate(cycle.claims, cycle.stock, node.name)
            if isinstance(results, Status):
                return results
        if unavailable:
            cycle.unavailable.update(unavailable)
            return _NOT_HERE
        return None

    # --- when no node will do

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """Asks for one claim of the pod back that is allocated in the wrong place."""
        cycle: _Cycle | None = state.data.get(self.name)
        if cycle is None:
            return unschedulable("no new claims to deallocate")
        candidates = [
            claim.claim
            for position in sorted(cycle.unavailable)
            if waits_for_consumer((claim := cycle.claims[position]).claim) and _only_used_by(claim.claim, pod.pod)
        ]
        if not candidates:
            return unschedulable("still not schedulable")
        try:
            await self._give_back(cycle, self._random.choice(candidates))
        except (StatusError, ConnectionError) as failure:
            return error(str(failure))
        return unschedulable(*(("deallocation of ResourceClaim completed",) if self._gates.at_least("1.30") else ()))

    async def _give_back(self, cycle: _Cycle, claim: v1alpha2.ResourceClaim) -> None:
        if self._structured is not None and _FINALIZER in claim.metadata.finalizers:
            await self._structured.deallocate(claim)
            return
        if self._gates.at_least("1.30") and cycle.negotiation.selected:
            # Otherwise the driver would allocate again where it just deallocated.
            cycle.negotiation.select("")
            await cycle.negotiation.publish(self._client)
        await writing.request_deallocation(self._client, claim)

    # --- when several will do

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Asked while several nodes are left: the moment to ask drivers about them. It prefers none."""
        cycle: _Cycle | None = state.data.get(self.name)
        if cycle is not None and cycle.pending:
            names = [node.name for node in nodes]
            if not set(names) <= set(cycle.negotiation.potential):
                cycle.negotiation.propose(names, self._random)
        return None

    # --- once the node is chosen

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Decides what to tell drivers next; the pod goes on when there is nothing left to tell or to wait for."""
        cycle: _Cycle | None = state.data.get(self.name)
        if cycle is None:
            return None
        negotiation, pending = cycle.negotiation, cycle.pending
        if self._structured is not None and cycle.stock is not None:
            results = self._structured.allocate(cycle.claims, cycle.stock, node)
            if isinstance(results, Status):
                return results
            self._structured.hold(cycle.claims, results)
        if not pending:
            return None
        if not negotiation.proposed and node not in negotiation.potential:
            negotiation.propose([node], self._random)
        structured = sum(claim.structured is not None for claim in cycle.claims)
        informed = sum(claim.informed for claim in pending)
        # The odd comparison with structured claims is Kubernetes'.
        answered = informed + structured == len(pending) and structured < len(pending)
        if negotiation.selected != node and ((len(pending) == 1 and not structured) or answered):
            negotiation.select(node)
        if not self._gates.at_least("1.29"):
            text = "allocate resource" if negotiation.selected == node else "provide information"
            return unresolvable(f"waiting for resource driver to {text}")
        if negotiation.dirty:
            return None
        return Status(Code.PENDING, ("waiting for resource driver to provide information",))

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Tells drivers what is decided, and lets go of reservations."""
        cycle: _Cycle | None = state.data.get(self.name)
        if cycle is None:
            return
        try:
            await cycle.negotiation.publish(self._client)
        except (StatusError, ConnectionError) as failure:
            _LOG.info("%s: scheduling context not written: %s", pod.key, failure)
        if self._structured is not None:
            self._structured.drop(cycle.claims)
        for claim in cycle.claims:
            if claim.claim.status.allocation is None or not is_reserved(claim.claim, pod.pod):
                continue
            try:
                await writing.withdraw(self._client, claim.claim, pod.pod)
            except (StatusError, ConnectionError) as failure:
                _LOG.info("%s: reservation not taken back: %s", pod.key, failure)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Writes what drivers must answer first; else reserves every claim, and ends the negotiation."""
        cycle: _Cycle | None = state.data.get(self.name)
        if cycle is None:
            return None
        try:
            if cycle.negotiation.dirty:
                await cycle.negotiation.publish(self._client)
                return Status(Code.PENDING, ("waiting for resource driver",))
            for claim in cycle.claims:
                if claim.structured is not None and self._structured is not None:
                    await self._structured.write(claim, pod.pod)
                elif not is_reserved(claim.claim, pod.pod):
                    claim.claim = await writing.reserve(self._client, claim.claim, pod.pod)
        except (StatusError, ConnectionError) as failure:
            return error(str(failure))
        return None

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """The negotiation has ended."""
        if self.name not in state.data:
            return
        metadata = pod.pod.metadata
        try:
            await self._client.resource(CONTEXTS, metadata.namespace).delete(metadata.name)
        except StatusError as failure:
            if not failure.is_not_found:
                _LOG.info("%s: scheduling context not deleted: %s", pod.key, failure)
        except ConnectionError as failure:
            _LOG.info("%s: scheduling context not deleted: %s", pod.key, failure)


def _only_used_by(claim: v1alpha2.ResourceClaim, pod: Pod) -> bool:
    return all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def _forward(informer: Informer[Any], resource: Resource, wake: Notify) -> None:
    informer.add_handler(
        lambda new: wake(ClusterEvent(resource, Action.ADD, None, new)),
        lambda old, new: wake(ClusterEvent(resource, Action.UPDATE, old, new)),
        lambda old: wake(ClusterEvent(resource, Action.DELETE, old, None)),
    )


def negotiating_plugin(
    client: Client,
    informers: SharedInformers,
    recorder: EventRecorder,
    configuration: ProfileConfiguration,
    *,
    clock: Clock,
    random: Random,
    gates: FeatureGates,
) -> NegotiatedResources:
    """The plugin of a scheduler from 1.26 to 1.30."""
    return NegotiatedResources(client, informers, random=random, gates=gates)
