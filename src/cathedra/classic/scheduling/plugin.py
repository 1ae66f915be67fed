"""DynamicResources of 1.26 to 1.30: a pod gets a node when the drivers of its claims have allocated there.

The first cycles only talk: potential nodes are proposed, a node is selected. Drivers answer through the API, which
wakes the pod; a cycle that finds every claim allocated reserves them and lets the pod be bound
(docs/spec/scheduling.md §18.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.resource_v1alpha2 import ResourceClaim
from cathedra.classic.resources import CLAIMS, CLASSES, CONTEXTS
from cathedra.classic.scheduling.claims import PodClaim, Unresolved, pod_claims
from cathedra.classic.scheduling.hints import ClassicHints
from cathedra.classic.scheduling.negotiating import Cycle, Negotiating, forward
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.clock import Clock
from cathedra.releases import FeatureGates, classic
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.events import EventRegistration, Resource
from cathedra.scheduler.framework.plugin import ClaimPlugin, Notify, PreEnqueuePlugin
from cathedra.scheduler.framework.status import Status, error, unresolvable
from cathedra.scheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from cathedra.classic.scheduling.structured import StructuredClaims

__all__ = ["NegotiatedResources", "negotiating_plugin"]

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Of claims that the scheduler allocated."""


class NegotiatedResources(Negotiating[ResourceClaim], ClaimPlugin, PreEnqueuePlugin):
    """Claims of pods, from the queue to the binding, by negotiation with their drivers."""

    def __init__(self, client: Client, informers: SharedInformers, *, random: Random, gates: FeatureGates) -> None:
        super().__init__(client, informers.of(CONTEXTS), random=random, gates=gates)
        self._claims = informers.of(CLAIMS)
        self._classes = informers.of(CLASSES)
        self._hints = ClassicHints(self._claims.store.get, gates.release)
        self._structured: StructuredClaims | None = None
        if gates.has(classic.STRUCTURED_MODEL):
            # start-up time: CEL, with the one release that has structured parameters
            from cathedra.classic.scheduling.structured import StructuredClaims

            self._structured = StructuredClaims(client, informers)

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Follow claims, classes and scheduling contexts."""
        forward(self._claims, Resource.RESOURCE_CLAIM, wake)
        forward(self._classes, Resource.RESOURCE_CLASS, wake)
        forward(self._contexts, Resource.POD_SCHEDULING_CONTEXT, wake)
        for informer, resource in self._structured.informers() if self._structured is not None else ():
            forward(informer, resource, wake)

    def events(self) -> Sequence[EventRegistration]:
        """See `ClassicHints`."""
        return self._hints.registrations()

    def backs(self, resource: str) -> bool:
        """Extended resources came to classes later."""
        return False

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """All claims must be there; until 1.27 that is first looked at when the pod's turn comes."""
        if not self._gates.has(classic.CLAIMS_CHECKED_BEFORE_QUEUE):
            return None
        try:
            self.claims_of(pod.pod)
        except Unresolved as why:
            return unresolvable(str(why))
        return None

    def claims_of(self, pod: Pod) -> list[PodClaim[ResourceClaim]]:
        """All claims of the pod."""
        return pod_claims(pod, self._claims.store.get, self._gates.release)

    def allocatable(self, claim: PodClaim[ResourceClaim]) -> Status | None:
        """Whether the claim's class is there; 1.30 has classes whose claims the scheduler allocates."""
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
        """Count what is free, if the scheduler has something to allocate."""
        cycle.allocates = sum(claim.structured is not None for claim in cycle.claims)
        if self._structured is not None and cycle.allocates:
            cycle.stock = self._structured.stock()

    def allocate(self, cycle: Cycle[ResourceClaim], node: str) -> Status | None:
        """Whether the node has instances for all of them together."""
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
        """The instances are free again."""
        if self._structured is not None:
            self._structured.drop(cycle.claims)

    async def write(self, claim: PodClaim[ResourceClaim], pod: Pod) -> None:
        """Write allocation and reservation."""
        assert self._structured is not None, "only 1.30 has such claims"
        await self._structured.write(claim, pod)

    async def give_back(self, cycle: Cycle[ResourceClaim], claim: ResourceClaim) -> None:
        """What the scheduler allocated it clears itself."""
        if self._structured is not None and _FINALIZER in claim.metadata.finalizers:
            await self._structured.deallocate(claim)
        else:
            await super().give_back(cycle, claim)


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
