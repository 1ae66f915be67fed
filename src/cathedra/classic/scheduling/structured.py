"""Claims that the scheduler of 1.30 allocates itself: which they are, what they get, how that is written.

What is decided for a pod is held in flight until it is written, so that no other pod is given the same instances
(docs/spec/scheduling.md §18.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.api.undecodable import rest_of
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.classic.anyclaim import consumer_of
from cathedra.classic.resources import CLAIM_PARAMETERS, CLAIMS, CLASS_PARAMETERS, SLICES
from cathedra.classic.scheduling.claims import PodClaim
from cathedra.classic.structured.allocation import Instance, Stock, StructuredClaim
from cathedra.classic.structured.parameters import AmbiguousParameters, MissingParameters, StructuredParameters
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.scheduler.framework.events import Resource
from cathedra.scheduler.framework.status import Status, error, unresolvable

__all__ = ["FINALIZER", "StructuredClaims"]

Claim = PodClaim[v1alpha2.ResourceClaim]
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_UNSUITABLE: Final = unresolvable("resourceclaim cannot be allocated for the node (unsuitable)")


class StructuredClaims:
    """What the scheduler knows of slices and parameters, and what it has decided and not written."""

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

    def informers(self) -> Iterable[tuple[Informer[Any], Resource]]:
        """What is followed, and what its changes are called."""
        yield self._slices, Resource.RESOURCE_SLICE
        yield self._class_parameters, Resource.RESOURCE_CLASS_PARAMETERS
        yield self._claim_parameters, Resource.RESOURCE_CLAIM_PARAMETERS

    def prepare(self, claim: Claim, resource_class: v1alpha2.ResourceClass) -> Status | None:
        """Make the claim one of the scheduler's, with its parameters; why that cannot be."""
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
        """What is free now, with all that is decided taken off."""
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
        """What the pod's structured claims get on a node, together; or why not."""
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
        """Keep what is decided for the claims."""
        mine = [claim for claim in claims if claim.structured is not None]
        for claim, result in zip(mine, results, strict=True):
            status = replace(claim.claim.status, allocation=result)
            self._in_flight[claim.claim.metadata.uid] = replace(claim.claim, status=status)

    def drop(self, claims: Iterable[Claim]) -> None:
        """Let go of what is decided; what is written stays until it is seen."""
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
        if FINALIZER not in latest.metadata.finalizers:
            latest = await claims.update(with_metadata(latest, finalizers=(*latest.metadata.finalizers, FINALIZER)))
        status = replace(
            latest.status,
            allocation=decided.status.allocation,
            driver_name=structured.resource_class.driver_name,
            reserved_for=(*latest.status.reserved_for, consumer_of(latest, pod)),
        )
        uid = latest.metadata.uid
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
