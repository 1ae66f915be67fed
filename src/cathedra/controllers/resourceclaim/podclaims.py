"""Which claim an entry of a pod means, and whether it is the pod's own (spec: controllers.md, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.api.core.core_v1 import Pod, PodResourceClaim
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim
from cathedra.client.objects import controller_of

__all__ = [
    "BY_CLAIM",
    "NotOwner",
    "by_claim",
    "check_owner",
    "claim_names",
    "has_claims",
    "is_bound_to_group",
    "is_done",
    "is_owned",
    "is_reserved_for",
    "is_terminated",
    "recorded_name",
    "template_names",
]

SCHEDULING_GROUP: Final = "scheduling.k8s.io"
BY_CLAIM: Final = "pod-claim"
"""Name of the index of pods by the claims they name."""


class NotOwner(Exception):
    """A claim that should be a pod's own belongs to somebody else."""

    def __init__(self, claim: ResourceClaim, pod: Pod, *, group: str = "") -> None:
        who = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
        super().__init__(
            f"ResourceClaim {claim.metadata.namespace}/{claim.metadata.name} was not created for "
            f"Pod {pod.metadata.namespace}/{pod.metadata.name} ({who})"
        )


def has_claims(pod: Pod) -> bool:
    """Whether the claim controller has anything to do with ``pod``."""
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def is_done(pod: Pod) -> bool:
    """Whether ``pod`` will never use its claims (again): finished, or deleted before it was scheduled."""
    if is_terminated(pod):
        return True
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name


def recorded_name(pod: Pod, entry: str) -> tuple[bool, str]:
    """Whether the status has an entry of that name, and the claim it names ("" means that none is needed)."""
    for status in pod.status.resource_claim_statuses:
        if status.name == entry:
            return True, status.resource_claim_name or ""
    return False, ""


def entry_claim_name(pod: Pod, entry: PodResourceClaim) -> str:
    """The claim of one entry; "" while it is not created, or when none is needed."""
    if entry.resource_claim_name:
        return entry.resource_claim_name
    return recorded_name(pod, entry.name)[1]


def claim_names(pod: Pod) -> Iterator[str]:
    """Every claim that ``pod`` names, in spec or status."""
    for entry in pod.spec.resource_claims:
        name = entry_claim_name(pod, entry)
        if name:
            yield name
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def by_claim(pod: Pod) -> Iterator[str]:
    """Index function: ``namespace/name`` of every claim that ``pod`` names."""
    return (f"{pod.metadata.namespace}/{name}" for name in claim_names(pod))


def template_names(pod: Pod) -> Iterator[str]:
    """Every template that ``pod`` uses."""
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name:
            yield entry.resource_claim_template_name


def group_name(pod: Pod) -> str:
    """The pod's PodGroup, "" if it has none."""
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group else ""


def check_owner(claim: ResourceClaim, pod: Pod, *, group: str = "") -> None:
    """Make sure that a claim made from a template is the pod's, or that of its PodGroup ``group``.

    Raises:
        NotOwner: it is somebody else's.
    """
    owner = controller_of(claim)
    if owner is not None:
        if owner.uid == pod.metadata.uid:
            return
        scheduling = owner.api_version.partition("/")[0] == SCHEDULING_GROUP
        if group and owner.kind == "PodGroup" and owner.name == group and scheduling:
            return
    raise NotOwner(claim, pod, group=group)


def is_owned(claim: ResourceClaim, pod: Pod, *, group: str = "") -> bool:
    """Whether a claim made from a template is the pod's, or that of its PodGroup ``group``."""
    try:
        check_owner(claim, pod, group=group)
    except NotOwner:
        return False
    return True


def is_terminated(pod: Pod) -> bool:
    """Whether the pod has ended."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_reserved_for(claim: ResourceClaim, pod: Pod, *, group: str = "") -> bool:
    """Whether ``pod``, or its PodGroup ``group``, may use the claim."""
    for consumer in claim.status.reserved_for:
        if consumer.uid == pod.metadata.uid:
            return True
        if group and (consumer.api_group, consumer.resource, consumer.name) == (SCHEDULING_GROUP, "podgroups", group):
            return True
    return False


def is_bound_to_group(entry: PodResourceClaim, group: PodGroup | None) -> bool:
    """Whether the claim of this entry is the PodGroup's: same name and same reference."""
    if group is None:
        return False
    return any(
        other.name == entry.name
        and (other.resource_claim_name or "") == (entry.resource_claim_name or "")
        and (other.resource_claim_template_name or "") == (entry.resource_claim_template_name or "")
        for other in group.spec.resource_claims
    )
