"""Placement of one pod in a state, with its claims allocated: the step of which gangs and moves are made.

The scheduler's filters and the allocator decide, as in an explanation. Nothing is written to a cluster: the result is
another state.
"""

from __future__ import annotations

import msgspec

from cathedra.allocation import AllocationError
from cathedra.api.core.core_v1 import Pod, PodExtendedResourceClaimStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from cathedra.api.struct import replace
from cathedra.insight.explanation.question import with_claims
from cathedra.insight.reading.state import ClusterState
from cathedra.scheduler.judging import ClaimCycle, Filters
from cathedra.semantics.owners import controller_reference

Within = frozenset[str] | None
"""Names of the nodes that are tried; None for all."""


class PodTrial(msgspec.Struct, frozen=True):
    """The nodes that a pod fits on in a state."""

    pod: Pod
    state: ClusterState
    """The state with the claims of the pod's templates."""
    nodes: tuple[str, ...] = ()
    cycle: ClaimCycle | None = None

    def placed_on(self, node: str) -> ClusterState | None:
        """Return the state with the pod on one of `nodes`; None if its claims cannot be allocated there after all."""
        placement = self.placement(node)
        return None if placement is None else self.state.including(placement)

    def placement(self, node: str) -> tuple[Pod | ResourceClaim, ...] | None:
        """Return the pod on one of `nodes` and its claims with their devices; None if they cannot be allocated."""
        claims: list[ResourceClaim] = []
        pod = self.pod
        consumer = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        if self.cycle is not None:
            try:
                decision = self.cycle.decision(node)
            except AllocationError:
                return None
            unallocated = self.cycle.unallocated
            allocations = decision[0] if decision is not None else ()
            decided = dict(zip((one.metadata.uid for one in unallocated), allocations, strict=False))
            for claim in self.cycle.claims:
                allocation = decided.get(claim.metadata.uid, claim.status.allocation)
                reserved = tuple(one for one in claim.status.reserved_for if one.uid != consumer.uid)
                status = replace(claim.status, allocation=allocation, reserved_for=(*reserved, consumer))
                claims.append(replace(claim, status=status))
            # The scheduler creates the claim for extended resources when it binds the pod.
            for allocation in allocations[len(unallocated) :]:
                special = _special(pod, allocation, consumer)
                claims.append(special)
                named = PodExtendedResourceClaimStatus(resource_claim_name=special.metadata.name)
                pod = replace(pod, status=replace(pod.status, extended_resource_claim_status=named))
        return (replace(pod, spec=replace(pod.spec, node_name=node)), *claims)


def tried(pod: Pod, state: ClusterState, within: Within = None) -> PodTrial:
    """Return the nodes that a pod fits on; none if its claims cannot be made."""
    subject = with_claims(pod, state)
    if subject.faults:
        return PodTrial(subject.pod, subject.state)
    judgement = Filters.over(subject.state).judge(subject.pod, only=within)
    return PodTrial(subject.pod, subject.state, judgement.fitting, judgement.cycle)


def _special(pod: Pod, allocation: AllocationResult, consumer: ResourceClaimConsumerReference) -> ResourceClaim:
    name = f"{pod.metadata.name}-extended-resources"
    metadata = ObjectMeta(
        name=name,
        namespace=pod.metadata.namespace,
        uid=f"ResourceClaim/{pod.metadata.namespace}/{name}",
        owner_references=(controller_reference(pod),),
    )
    return ResourceClaim(metadata=metadata, status=ResourceClaimStatus(allocation=allocation, reserved_for=(consumer,)))
