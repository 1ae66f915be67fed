"""DynamicResources of 1.26 to 1.30: a pod gets a node when the drivers of its claims have allocated there.

The first cycles only negotiate: potential nodes are proposed, then one is selected. Drivers answer through the API,
which queues the pod again. A cycle that finds every claim allocated reserves them, and the pod is bound
(docs/spec/scheduling.md §18.2).

Claims with structured parameters are allocated by the scheduler of 1.30 itself. A decision is held in flight until it
is written, so that no other pod gets the same instances (docs/spec/scheduling.md §18.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.resource_v1alpha2 import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.api.undecodable import rest_of
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.classic.anyclaim import AnyClaim, consumer_of
from cathedra.classic.resources import CLAIM_PARAMETERS, CLAIMS, CLASS_PARAMETERS, CLASSES, CONTEXTS, SLICES
from cathedra.classic.scheduling.claims import FindClaim, PodClaim, Unresolved, pod_claims
from cathedra.classic.scheduling.negotiating import Cycle, Negotiating, forward
from cathedra.classic.structured import (
    AmbiguousParameters,
    Instance,
    MissingParameters,
    Stock,
    StructuredClaim,
    StructuredParameters,
)
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.releases import FeatureGates, classic
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import ClaimPlugin, Notify, PluginContext, PreEnqueuePlugin
from cathedra.scheduler.framework.status import Status, error, unresolvable
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.owners import is_controlled_by


class NegotiatedResources(Negotiating[ResourceClaim], ClaimPlugin, PreEnqueuePlugin):
    """Claims of pods, from the queue to the binding, by negotiation with their drivers."""

    def __init__(self, client: Client, informers: SharedInformers, *, random: Random, gates: FeatureGates) -> None:
        super().__init__(client, informers.of(CONTEXTS), random=random, gates=gates)
        self._claims = informers.of(CLAIMS)
        self._classes = informers.of(CLASSES)
        self._hints = ClassicHints(self._claims.store.get, gates.release)
        self._structured: StructuredClaims | None = None
        if gates.has(classic.STRUCTURED_MODEL):
            self._structured = StructuredClaims(client, informers)

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Follow claims, classes and scheduling contexts."""
        forward(self._claims, EventResource.RESOURCE_CLAIM, wake)
        forward(self._classes, EventResource.RESOURCE_CLASS, wake)
        forward(self._contexts, EventResource.POD_SCHEDULING_CONTEXT, wake)
        for informer, resource in self._structured.informers() if self._structured is not None else ():
            forward(informer, resource, wake)

    def events(self) -> Sequence[EventRegistration]:
        """Return the registrations of `ClassicHints`."""
        return self._hints.registrations()

    def backs(self, resource: str) -> bool:
        """Extended resources came to classes later."""
        return False

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Require that all claims exist. Until 1.27 this is checked only in the scheduling cycle."""
        if not self._gates.has(classic.CLAIMS_CHECKED_BEFORE_QUEUE):
            return None
        try:
            self.claims_of(pod.pod)
        except Unresolved as why:
            return unresolvable(str(why))
        return None

    def claims_of(self, pod: Pod) -> list[PodClaim[ResourceClaim]]:
        """Return all claims of the pod."""
        return pod_claims(pod, self._claims.store.get, self._gates.release)

    def allocatable(self, claim: PodClaim[ResourceClaim]) -> Status | None:
        """Return True if the claim's class is there; 1.30 has classes whose claims the scheduler allocates."""
        name = claim.claim.spec.resource_class_name
        found = self._classes.store.get("", name)
        if found is None:
            if self._gates.has(classic.MISSING_CLASS_UNSCHEDULABLE):
                return unresolvable(f"resource class {name} does not exist")
            claim.fault = error(f'look up resource class: resourceclass.resource.k8s.io "{name}" not found')
            return None
        claim.nodes = () if found.suitable_nodes is None else (found.suitable_nodes,)
        if self._structured is not None and found.structured_parameters:
            return self._structured.prepare(claim, found)
        return None

    # --- claims that the scheduler of 1.30 allocates

    def begin(self, cycle: Cycle[ResourceClaim]) -> None:
        """Count free resources, if the scheduler has something to allocate."""
        cycle.allocates = sum(claim.structured is not None for claim in cycle.claims)
        if self._structured is not None and cycle.allocates:
            cycle.stock = self._structured.stock()

    def allocate(self, cycle: Cycle[ResourceClaim], node: str) -> Status | None:
        """Return True if the node has instances for all of them together."""
        if self._structured is None or cycle.stock is None:
            return None
        results = self._structured.allocate(cycle.claims, cycle.stock, node)
        return results if isinstance(results, Status) else None

    def hold(self, cycle: Cycle[ResourceClaim], node: str) -> Status | None:
        """Keep the node's instances in flight."""
        if self._structured is None or cycle.stock is None:
            return None
        results = self._structured.allocate(cycle.claims, cycle.stock, node)
        if isinstance(results, Status):
            return results
        self._structured.hold(cycle.claims, results)
        return None

    def drop(self, cycle: Cycle[ResourceClaim]) -> None:
        """Note that the instances are free again."""
        if self._structured is not None:
            self._structured.drop(cycle.claims)

    async def write(self, claim: PodClaim[ResourceClaim], pod: Pod) -> None:
        """Write allocation and reservation."""
        assert self._structured is not None, "only 1.30 has such claims"
        await self._structured.write(claim, pod)

    async def give_back(self, cycle: Cycle[ResourceClaim], claim: ResourceClaim) -> None:
        """Deallocate the claim, because the scheduler allocated it."""
        # The finalizer marks allocations of the scheduler; a driver's are given back by the driver.
        if self._structured is not None and FINALIZER in claim.metadata.finalizers:
            await self._structured.deallocate(claim)
        else:
            await super().give_back(cycle, claim)


def negotiating_plugin(context: PluginContext, configuration: ProfileConfiguration) -> NegotiatedResources:
    """Return the plugin of a scheduler from 1.26 to 1.30."""
    return NegotiatedResources(context.client, context.informers, random=context.random, gates=context.gates)


Claim = PodClaim[v1alpha2.ResourceClaim]
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_UNSUITABLE: Final = unresolvable("resourceclaim cannot be allocated for the node (unsuitable)")


class StructuredClaims:
    """Slices and parameters that the scheduler has read, and its decisions that are not written yet."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._claims = informers.of(CLAIMS)
        self._slices = informers.of(SLICES)
        self._class_parameters = informers.of(CLASS_PARAMETERS)
        self._claim_parameters = informers.of(CLAIM_PARAMETERS)
        self._parameters = StructuredParameters(self._class_parameters.store, self._claim_parameters.store)
        self._in_flight: dict[str, v1alpha2.ResourceClaim] = {}
        """By UID, with the allocation that is decided; until it is seen, or taken back unwritten."""
        self._written: set[str] = set()
        self._claims.add_handler(self._seen, lambda _, claim: self._seen(claim), self._gone)

    def informers(self) -> Iterable[tuple[Informer[Any], EventResource]]:
        """Yield the informers, and the names of their changes."""
        yield self._slices, EventResource.RESOURCE_SLICE
        yield self._class_parameters, EventResource.RESOURCE_CLASS_PARAMETERS
        yield self._claim_parameters, EventResource.RESOURCE_CLAIM_PARAMETERS

    def prepare(self, claim: Claim, resource_class: v1alpha2.ResourceClass) -> Status | None:
        """Make the claim one of the scheduler's, with its parameters; why that cannot be."""
        # Another pod's decision about this claim is being written; deciding again could allocate it twice.
        if claim.claim.metadata.uid in self._in_flight:
            where = f"{claim.claim.metadata.namespace}/{claim.claim.metadata.name}"
            return unresolvable(f"resource claim {where} is in the process of being allocated")
        try:
            of_class = self._parameters.of_class(resource_class)
            of_claim = self._parameters.of_claim(claim.claim, resource_class)
        except MissingParameters as missing:
            return unresolvable(str(missing))
        except AmbiguousParameters as ambiguous:
            return error(str(ambiguous))
        claim.structured = StructuredClaim(claim.claim, resource_class, of_class, of_claim)
        return None

    def stock(self) -> Stock:
        """Return the free resources without those of decisions that are not written yet."""
        claims = list(self._claims.store.list())
        for what in self._claims.store.undecodable.values():
            rest, faults = rest_of(v1alpha2.ResourceClaim, what)
            if rest is None or any(path.startswith("status") for path in faults):
                return Stock((), ())  # what it holds is not known: nothing is given out
            claims.append(rest)
        flying = self._in_flight
        return Stock(self._slices.store.list(), [flying.get(claim.metadata.uid, claim) for claim in claims])

    @staticmethod
    def allocate(claims: Iterable[Claim], stock: Stock, node: str) -> list[v1alpha2.AllocationResult] | Status:
        """Allocate all structured claims of the pod on a node, or return why that is impossible."""
        held: set[Instance] = set()
        results: list[v1alpha2.AllocationResult] = []
        for claim in claims:
            if claim.structured is None:
                continue
            try:
                result = claim.structured.allocate(stock, node, held)
            except (CompileError, EvaluationError) as broken:
                return unresolvable(f"checking structured parameters failed: {broken}")
            if result is None:
                return _UNSUITABLE
            results.append(result)
        return results

    def hold(self, claims: Iterable[Claim], results: list[v1alpha2.AllocationResult]) -> None:
        """Hold the decisions for the claims."""
        mine = [claim for claim in claims if claim.structured is not None]
        for claim, result in zip(mine, results, strict=True):
            status = replace(claim.claim.status, allocation=result)
            self._in_flight[claim.claim.metadata.uid] = replace(claim.claim, status=status)

    def drop(self, claims: Iterable[Claim]) -> None:
        """Drop the decision. A written decision stays until its event arrives."""
        for claim in claims:
            if claim.claim.metadata.uid not in self._written:
                self._in_flight.pop(claim.claim.metadata.uid, None)

    def _seen(self, claim: v1alpha2.ResourceClaim) -> None:
        if claim.status.allocation is not None:
            self._gone(claim)

    def _gone(self, claim: v1alpha2.ResourceClaim) -> None:
        self._in_flight.pop(claim.metadata.uid, None)
        self._written.discard(claim.metadata.uid)

    async def write(self, claim: Claim, pod: Pod) -> None:
        """Write the decision and the reservation for the pod into the claim.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        structured = claim.structured
        decided = self._in_flight.get(claim.claim.metadata.uid)
        assert structured is not None, "only what is held is written"
        assert decided is not None, "only what is held is written"
        claims = self._client.resource(CLAIMS, claim.claim.metadata.namespace)
        latest = claim.claim
        # Before the allocation: otherwise a deletion in between would lose track of what the claim holds.
        if FINALIZER not in latest.metadata.finalizers:
            latest = await claims.update(with_metadata(latest, finalizers=(*latest.metadata.finalizers, FINALIZER)))
        status = replace(
            latest.status,
            allocation=decided.status.allocation,
            driver_name=structured.resource_class.driver_name,
            reserved_for=(*latest.status.reserved_for, consumer_of(latest, pod)),
        )
        uid = latest.metadata.uid
        # Before the request: the event may arrive before the answer, and a lost answer must keep the decision in
        # flight.
        self._written.add(uid)
        try:
            claim.claim = await claims.update_status(replace(latest, status=status))
        except StatusError:
            self._written.discard(uid)
            raise

    async def deallocate(self, claim: v1alpha2.ResourceClaim) -> None:
        """Clear the allocation of a claim that the scheduler allocated.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        status = replace(claim.status, allocation=None, driver_name="", reserved_for=())
        await self._client.resource(CLAIMS, claim.metadata.namespace).update_status(replace(claim, status=status))


class ClassicHints:
    """The plugin's registrations of events."""

    def __init__(self, find: FindClaim[AnyClaim], release: str) -> None:
        self._find = find
        self._release = release

    def registrations(self) -> Sequence[EventRegistration]:
        """Return claims, scheduling contexts, classes and their parameters, nodes, the pod's own claim names."""
        node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        both = Action.ADD | Action.UPDATE
        return (
            EventRegistration(EventResource.NODE, node),
            EventRegistration(EventResource.RESOURCE_CLAIM, both, self._claim_helps),
            context_registration(self._find, self._release),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_CLAIM, self._pod_helps),
            EventRegistration(EventResource.RESOURCE_CLASS, both),
            EventRegistration(EventResource.RESOURCE_CLAIM_PARAMETERS, both),
            EventRegistration(EventResource.RESOURCE_CLASS_PARAMETERS, both),
            EventRegistration(EventResource.RESOURCE_SLICE, both),
        )

    def _pod_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        return bool(pod.metadata.uid == change.new.metadata.uid) and self._resolves(change.new)

    def _resolves(self, pod: Pod) -> bool:
        try:
            pod_claims(pod, self._find, self._release)
        except Unresolved:
            return False
        return True

    def _claim_helps(self, pod: Pod, change: ClusterEvent) -> bool:
        old: v1alpha2.ResourceClaim | None = change.old
        new: v1alpha2.ResourceClaim = change.new
        try:
            claims = pod_claims(pod, self._find, self._release)
        except Unresolved:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            # Its devices are free: any driver may have room now.
            return True
        if all(claim.claim.metadata.uid != new.metadata.uid for claim in claims):
            return False
        return old is None or old.status != new.status


def context_registration(find: FindClaim[AnyClaim], release: str) -> EventRegistration:
    """Answers of drivers: a pod is tried again once all have answered, or when its node will not do."""

    def helps(pod: Pod, change: ClusterEvent) -> bool:
        return _context_helps(find, release, pod, change)

    return EventRegistration(EventResource.POD_SCHEDULING_CONTEXT, Action.ADD | Action.UPDATE, helps)


def _context_helps(find: FindClaim[AnyClaim], release: str, pod: Pod, change: ClusterEvent) -> bool:
    old: v1alpha2.PodSchedulingContext | None = change.old
    new: v1alpha2.PodSchedulingContext = change.new
    if not is_controlled_by(new, pod):
        return False
    try:
        claims = pod_claims(pod, find, release)
    except Unresolved:
        return False
    answered = {claim.name for claim in new.status.resource_claims}
    if any(claim.pending and claim.entry not in answered for claim in claims):
        return False
    if old is None or len(new.status.resource_claims) > len(old.status.resource_claims):
        return True
    selected = new.spec.selected_node
    if selected and any(selected in claim.unsuitable_nodes for claim in new.status.resource_claims):
        return True
    return old.spec == new.spec
