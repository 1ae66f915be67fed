"""The claims of a pod as the scheduler reads them, with the facts that it needs to judge nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from cathedra.api.core.core_v1 import Node, NodeSelector, Pod, PodResourceClaim
from cathedra.api.selectors import node_selector_matches
from cathedra.classic.anyclaim import AnyClaim, C
from cathedra.classic.controlplane.kinds import ControlledClaim
from cathedra.releases import classic
from cathedra.scheduler.framework.status import Status
from cathedra.semantics.owners import is_controlled_by
from cathedra.semantics.podclaims import ClaimNotCreated, PodClaimError, entry_claim

if TYPE_CHECKING:
    from cathedra.classic.structured import StructuredClaim

__all__ = [
    "AnyClaim",
    "FindClaim",
    "PodClaim",
    "Unresolved",
    "can_be_reserved",
    "is_reserved",
    "pod_claims",
    "waits_for_consumer",
]

MAX_CONSUMERS = 32
FindClaim = Callable[[str, str], C | None]
"""Namespace and name → claim."""


class Unresolved(Exception):
    """Some claim of a pod is not there, not its own, or going away."""


@dataclass(slots=True)
class PodClaim(Generic[C]):
    """One claim of a pod in one scheduling cycle."""

    entry: str
    """Name of the pod's entry, under which drivers answer."""
    claim: C
    nodes: tuple[NodeSelector, ...] = ()
    """The nodes of its allocation, or the nodes where its classes may be allocated."""
    unsuitable: frozenset[str] = frozenset()
    """Nodes that its driver excludes."""
    informed: bool = False
    """True if its driver has answered at all."""
    fault: Status | None = None
    """Reason why no node can be evaluated."""
    structured: StructuredClaim | None = None
    """The scheduler's own allocation of the claim. None means that a driver allocates."""

    @property
    def pending(self) -> bool:
        """True if a driver has yet to allocate it."""
        return self.claim.status.allocation is None and self.structured is None

    def allows(self, node: Node) -> bool:
        """Return True if each of `nodes` selects the node."""
        return all(node_selector_matches(selector, node) for selector in self.nodes)


def pod_claims(pod: Pod, find: FindClaim[C], release: str) -> list[PodClaim[C]]:
    """Return the pod's claims in the order of its spec.

    Raises:
        Unresolved: at the first entry that has no usable claim, in the words of the ``release``.
    """
    found: list[PodClaim[C]] = []
    for entry in pod.spec.resource_claims:
        try:
            named = entry_claim(pod, entry)
        except ClaimNotCreated as error:
            raise Unresolved(
                _not_generated(pod, entry) if not classic.GENERATED_CLAIM_NAMES.holds_in(release) else str(error)
            ) from error
        except PodClaimError as error:
            raise Unresolved(str(error)) from error
        if named is None:
            continue
        claim = find(pod.metadata.namespace, named.name)
        if claim is None and named.generated and not classic.GENERATED_CLAIM_NAMES.holds_in(release):
            raise Unresolved(_not_generated(pod, entry))
        if claim is None:
            raise Unresolved(_missing(pod.metadata.namespace, named.name, release))
        if claim.metadata.deletion_timestamp is not None:
            raise Unresolved(f'resourceclaim "{named.name}" is being deleted')
        if named.generated and not is_controlled_by(claim, pod):
            where = f"{pod.metadata.namespace}/{named.name}"
            owner = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
            raise Unresolved(f"ResourceClaim {where} was not created for {owner} (pod is not owner)")
        found.append(PodClaim(entry.name, claim))
    return found


def _not_generated(pod: Pod, entry: PodResourceClaim) -> str:
    name = f"{pod.metadata.name}-{entry.name}"
    return f'waiting for dynamic resource controller to create the resourceclaim "{name}"'


def _missing(namespace: str, name: str, release: str) -> str:
    """Return the text for a missing claim in the words of the release.

    The scheduler looked claims up in the informer's store first, in later releases in caches of two names.
    """
    if classic.CLAIM_MISSING_BY_KIND.holds_in(release):
        return f'could not find ResourceClaim "{namespace}/{name}"'
    if classic.CLAIM_MISSING_IN_ASSUME_CACHE.holds_in(release):
        return f'could not find claim "{namespace}/{name}"'
    return f'resourceclaim.resource.k8s.io "{name}" not found'


def is_reserved(claim: AnyClaim, pod: Pod) -> bool:
    """Return True if the pod is among the claim's consumers."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def can_be_reserved(claim: AnyClaim) -> bool:
    """Return True if an allocated claim takes one more consumer. In 1.31 only the API server decides."""
    if isinstance(claim, ControlledClaim):
        return True
    status = claim.status
    shareable = status.allocation is not None and status.allocation.shareable
    return not status.reserved_for or (shareable and len(status.reserved_for) < MAX_CONSUMERS)


def waits_for_consumer(claim: AnyClaim) -> bool:
    """Return True if the claim is allocated when a pod needs it, not before; since 1.31 all are."""
    return isinstance(claim, ControlledClaim) or claim.spec.allocation_mode != "Immediate"
