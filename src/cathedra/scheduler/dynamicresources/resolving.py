"""From a pod to its claims: by name, or through the name that was generated for a template.

The texts are Kubernetes' own (spec: scheduling.md, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cathedra.api.core.core_v1 import Pod, PodResourceClaim
from cathedra.api.resource import ResourceClaim
from cathedra.client.objects import controller_of

__all__ = ["FindClaim", "Unresolved", "claim_names", "is_reserved_for", "resolve"]

FindClaim = Callable[[str, str], ResourceClaim | None]
"""Namespace and name → claim."""


class Unresolved(Exception):
    """Some claim of a pod is not there, not its own, or going away."""


def resolve(pod: Pod, find: FindClaim) -> list[ResourceClaim]:
    """The pod's claims in the order of its spec; an entry that needed no claim is left out.

    Raises:
        Unresolved: at the first entry that has no usable claim.
    """
    return [claim for entry in pod.spec.resource_claims if (claim := _claim_of(pod, entry, find)) is not None]


def claim_names(pod: Pod) -> Iterator[str]:
    """The names of the claims that the pod is known to use."""
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name:
            yield status.resource_claim_name


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod is entered among the claim's consumers."""
    uid = pod.metadata.uid
    return any(consumer.uid == uid for consumer in claim.status.reserved_for)


def _claim_of(pod: Pod, entry: PodResourceClaim, find: FindClaim) -> ResourceClaim | None:
    namespace = pod.metadata.namespace
    name = _name_of(pod, entry)
    if name is None:
        return None
    claim = find(namespace, name)
    if claim is None:
        raise Unresolved(f'could not find ResourceClaim "{namespace}/{name}"')
    if claim.metadata.deletion_timestamp is not None:
        raise Unresolved(f'resourceclaim "{name}" is being deleted')
    if entry.resource_claim_name is None:
        owner = controller_of(claim)
        if owner is None or owner.uid != pod.metadata.uid or owner.name != pod.metadata.name:
            raise Unresolved(
                f"ResourceClaim {namespace}/{name} was not created for "
                f"Pod {namespace}/{pod.metadata.name} (Pod is not owner)"
            )
    return claim


def _name_of(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The claim's name; None if no claim was needed."""
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise Unresolved(f'{where}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name or None
    raise Unresolved(f"{where}: ResourceClaim not created yet")
