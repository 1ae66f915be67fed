"""Claims that the scheduler made for a pod's extended resources: the pod pays for them already
(docs/spec/api.md §B.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.resource import ResourceClaim
from cathedra.kinds.core.pods.usage import pod_usage
from cathedra.kinds.resource.claims.usage import SPECIAL_CLAIM
from cathedra.semantics.owners import controller_of

__all__ = ["beyond_pod", "paying_pod"]


def beyond_pod(usage: Mapping[str, Quantity], pod: Pod | None) -> dict[str, Quantity]:
    """What a claim is charged beyond what ``pod`` pays for it; everything if no pod does."""
    if pod is None:
        return dict(usage)
    paid, nothing = pod_usage(pod, extended=True), Quantity.of_value(0)
    return {name: max(amount - paid[name], nothing) if name in paid else amount for name, amount in usage.items()}


def paying_pod(
    claim: ResourceClaim, pod_named: Callable[[str], Pod | None], claims: Callable[[], Iterable[ResourceClaim]]
) -> Pod | None:
    """The pod that pays for a claim: its owner, if the claim is the one that its status names, or while that says
    nothing, the oldest (of equal age the first by name) of those made for it.

    ``pod_named`` finds pods, ``claims`` lists claims of the claim's namespace.
    """
    owner = _owner(claim)
    if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
        return None
    pod = pod_named(owner.name)
    if pod is None or pod.metadata.uid != owner.uid:
        return None
    status = pod.status.extended_resource_claim_status
    if status is not None:
        return pod if status.resource_claim_name == claim.metadata.name else None
    rivals = (other.metadata for other in claims() if (one := _owner(other)) is not None and one.uid == owner.uid)
    return pod if all(_age(claim.metadata) <= _age(rival) for rival in rivals) else None


def _owner(claim: ResourceClaim) -> OwnerReference | None:
    """The controller of a special claim; None for other claims."""
    if claim.metadata.annotations.get(SPECIAL_CLAIM) != "true":
        return None
    return controller_of(claim)


def _age(metadata: ObjectMeta) -> tuple[float, str]:
    created = metadata.creation_timestamp
    return (created.micros if created is not None else float("inf"), metadata.name)
