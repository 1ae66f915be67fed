"""From a pod to its claims: by name, through the name that was generated for a template, or through its PodGroup.

The texts are Kubernetes' own (spec: scheduling.md, sections 2 and 14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cathedra.api.core.core_v1 import Pod, PodResourceClaim
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference
from cathedra.client.objects import controller_of
from cathedra.client.store import Store

__all__ = ["FindClaim", "Resolver", "Unresolved", "claim_names"]

FindClaim = Callable[[str, str], ResourceClaim | None]
"""Namespace and name → claim."""

_GROUP_API = "scheduling.k8s.io"


class Unresolved(Exception):
    """Some claim of a pod is not there, not its own, or going away."""


class Resolver:
    """Knows the claims of pods, and in whose name they are reserved."""

    def __init__(self, find: FindClaim, groups: Store[PodGroup] | None) -> None:
        """``groups`` is None while PodGroups have no claims."""
        self._find = find
        self._groups = groups

    def claims(self, pod: Pod) -> list[ResourceClaim]:
        """The pod's claims in the order of its spec; an entry that needed no claim is left out.

        Raises:
            Unresolved: at the first entry that has no usable claim.
        """
        group = self._group_of(pod)
        return [claim for entry in pod.spec.resource_claims if (claim := self._claim(pod, entry, group)) is not None]

    def entries(self, pod: Pod) -> dict[str, str]:
        """The pod's entries, and the UIDs of their claims.

        Raises:
            Unresolved: as `claims`.
        """
        group = self._group_of(pod)
        found = ((entry.name, self._claim(pod, entry, group)) for entry in pod.spec.resource_claims)
        return {name: claim.metadata.uid for name, claim in found if claim is not None}

    def is_reserved(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Whether the pod, or its PodGroup, is entered among the claim's consumers."""
        group = self._group_of(pod)
        uids = {pod.metadata.uid} if group is None else {pod.metadata.uid, group.metadata.uid}
        return any(consumer.uid in uids for consumer in claim.status.reserved_for)

    def consumer(self, pod: Pod, claim: ResourceClaim) -> ResourceClaimConsumerReference:
        """Who is entered among the claim's consumers when ``pod`` uses it."""
        group = self._group_of(pod)
        if group is not None and any(
            _is_shared(entry, group) and _shared_name(entry, group) == claim.metadata.name
            for entry in pod.spec.resource_claims
        ):
            metadata = group.metadata
            return ResourceClaimConsumerReference(
                api_group=_GROUP_API, resource="podgroups", name=metadata.name, uid=metadata.uid
            )
        return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)

    def _group_of(self, pod: Pod) -> PodGroup | None:
        wanted = pod.spec.scheduling_group
        if self._groups is None or wanted is None or not wanted.pod_group_name:
            return None
        return self._groups.get(pod.metadata.namespace, wanted.pod_group_name)

    def _claim(self, pod: Pod, entry: PodResourceClaim, group: PodGroup | None) -> ResourceClaim | None:
        namespace = pod.metadata.namespace
        shared = group if group is not None and _is_shared(entry, group) else None
        name = _group_claim(entry, shared) if shared is not None else _pod_claim(pod, entry)
        if name is None:
            return None
        claim = self._find(namespace, name)
        if claim is None:
            raise Unresolved(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise Unresolved(f'resourceclaim "{name}" is being deleted')
        if entry.resource_claim_name is None:
            _check_owner(claim, pod, group, shared)
        return claim


def claim_names(pod: Pod) -> Iterator[str]:
    """The names of the claims that the pod is known to use."""
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name:
            yield status.resource_claim_name


def _is_shared(entry: PodResourceClaim, group: PodGroup) -> bool:
    """Whether the claim of this entry is the PodGroup's: same name and same reference."""
    wanted = (entry.name, entry.resource_claim_name, entry.resource_claim_template_name)
    return any(
        wanted == (other.name, other.resource_claim_name, other.resource_claim_template_name)
        for other in group.spec.resource_claims
    )


def _shared_name(entry: PodResourceClaim, group: PodGroup) -> str | None:
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    return next((s.resource_claim_name for s in group.status.resource_claim_statuses if s.name == entry.name), None)


def _group_claim(entry: PodResourceClaim, group: PodGroup) -> str | None:
    """The name of the PodGroup's claim; None if none was needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    for status in group.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name or None
    raise Unresolved(f"PodGroup {group.metadata.namespace}/{group.metadata.name}: ResourceClaim not created yet")


def _pod_claim(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The name of the pod's claim; None if none was needed."""
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise Unresolved(f'{where}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name or None
    raise Unresolved(f"{where}: ResourceClaim not created yet")


def _check_owner(claim: ResourceClaim, pod: Pod, group: PodGroup | None, shared: PodGroup | None) -> None:
    """Make sure that a claim made from a template was made for this pod, or for its PodGroup."""
    owner = controller_of(claim)
    if owner is not None:
        if shared is None and (owner.uid, owner.name) == (pod.metadata.uid, pod.metadata.name):
            return
        if group is not None and (owner.uid, owner.name) == (group.metadata.uid, group.metadata.name):
            return
    namespace = claim.metadata.namespace
    what = f"ResourceClaim {namespace}/{claim.metadata.name} was not created for"
    if shared is not None:
        raise Unresolved(f"{what} PodGroup {namespace}/{shared.metadata.name} (PodGroup is not owner)")
    who = "Pod is not owner" if group is None else f"neither Pod nor PodGroup {group.metadata.name} is the owner"
    raise Unresolved(f"{what} Pod {namespace}/{pod.metadata.name} ({who})")
