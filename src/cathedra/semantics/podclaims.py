"""Claims of a pod's entries: their names, their owners and their consumers.

Spec: docs/spec/controllers.md §2.1; docs/spec/scheduling.md §2 and §14; docs/spec/node.md §7.2. Source:
``k8s.io/dynamic-resource-allocation/resourceclaim``. The texts are Kubernetes' own.

The scheduler has the object of a PodGroup, node and controllers only its name. There are therefore two functions that
look up a reservation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import ClaimSource, Pod, PodResourceClaim
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference
from cathedra.semantics.owners import controller_of, is_controlled_by
from cathedra.semantics.pods import TERMINAL_PHASES

SCHEDULING_GROUP: Final = "scheduling.k8s.io"


class PodClaimError(Exception):
    """Base of what is wrong between a pod and one of its claims: `EntryUnset`, `ClaimNotCreated`, `NotOwner`."""


class EntryUnset(PodClaimError):
    """An entry names neither a claim nor a template."""

    def __init__(self, pod: Pod, entry: PodResourceClaim) -> None:
        super().__init__(f'{_quoted(pod)}, spec.resourceClaim "{entry.name}": none of the supported fields are set')


class ClaimNotCreated(PodClaimError):
    """The claim of a template does not exist yet, neither for the pod nor for its PodGroup.

    Waiting pods raise it again and again, so the text is made only when it is read.
    """

    args: tuple[Pod | PodGroup]

    def __str__(self) -> str:
        (owner,) = self.args
        what = _quoted(owner) if isinstance(owner, Pod) else f"PodGroup {_plain(owner)}"
        return f"{what}: ResourceClaim not created yet"


class NotOwner(PodClaimError):
    """A claim that was to be made from a template was made for something else."""

    def __init__(self, claim: KubeObject, made_for: str, why: str) -> None:
        where = f"{claim.metadata.namespace}/{claim.metadata.name}"
        super().__init__(f"ResourceClaim {where} was not created for {made_for} ({why})")


class EntryClaim(msgspec.Struct, frozen=True, gc=False):
    """The claim of one entry: its name, and whether it was generated from a template, so that its owner counts."""

    entry: str
    name: str
    generated: bool


def claim_source(entry: PodResourceClaim) -> PodResourceClaim | ClaimSource:
    """Return the part of an entry that names its claim or template: the entry itself, until 1.30 its field
    ``source``."""
    return entry.source or entry


def entry_claim(pod: Pod, entry: PodResourceClaim) -> EntryClaim | None:
    """Return the claim of a pod's entry. Return None if the entry needs none.

    Raises:
        EntryUnset: the entry names neither.
        ClaimNotCreated: its claim is not generated yet.
    """
    source = entry.source or entry
    if source.resource_claim_name is not None:
        return EntryClaim(entry.name, source.resource_claim_name, generated=False)
    if source.resource_claim_template_name is None:
        raise EntryUnset(pod, entry)
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            name = status.resource_claim_name
            return EntryClaim(entry.name, name, generated=True) if name else None
    raise ClaimNotCreated(pod)


def awaits_claim(pod: Pod, entry: PodResourceClaim) -> bool:
    """Return True if the pod has no generated claims yet, and the entry needs one. Then `entry_claim` raises
    `ClaimNotCreated`, which costs more than this test (hot path: every new pod)."""
    return (
        not pod.status.resource_claim_statuses
        and entry.resource_claim_template_name is not None
        and entry.resource_claim_name is None
        and entry.source is None
    )


def group_entry_claim(group: PodGroup, entry: PodResourceClaim) -> EntryClaim | None:
    """Return the claim of an entry that the PodGroup has as well (see `shares_claim`); None if it turned out to need
    none.

    Raises:
        ClaimNotCreated: its claim is not generated yet.
    """
    if entry.resource_claim_name is not None:
        return EntryClaim(entry.name, entry.resource_claim_name, generated=False)
    for status in group.status.resource_claim_statuses:
        if status.name == entry.name:
            name = status.resource_claim_name
            return EntryClaim(entry.name, name, generated=True) if name else None
    raise ClaimNotCreated(group)


def shares_claim(entry: PodResourceClaim, group: PodGroup) -> bool:
    """Return True if the claim of this entry is the PodGroup's: same name and same reference."""
    wanted = (entry.name, entry.resource_claim_name or "", entry.resource_claim_template_name or "")
    return any(
        wanted == (other.name, other.resource_claim_name or "", other.resource_claim_template_name or "")
        for other in group.spec.resource_claims
    )


def has_claims(pod: Pod) -> bool:
    """Return True if the pod uses claims, its own or those made for its extended resources."""
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def claim_names(pod: Pod) -> list[str]:
    """Return the names of the claims that the pod is known to use, those of its entries first; each as often as it is
    named."""
    names = []
    recorded: dict[str, str | None] = {}
    for status in pod.status.resource_claim_statuses:
        recorded.setdefault(status.name, status.resource_claim_name)  # the first of a name counts
    for entry in pod.spec.resource_claims:
        source = entry.source or entry
        name = source.resource_claim_name
        if name is None and source.resource_claim_template_name is not None:
            name = recorded.get(entry.name)
        if name:
            names.append(name)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        names.append(extended.resource_claim_name)
    return names


def names_same_claims(old: Pod, new: Pod) -> bool:
    """Return True if everything that `claim_names` reads is the same object in both states of a pod."""
    before, after = old.status, new.status
    return (
        old.spec.resource_claims is new.spec.resource_claims
        and before.resource_claim_statuses is after.resource_claim_statuses
        and before.extended_resource_claim_status is after.extended_resource_claim_status
    )


BY_CLAIM: Final = "pod-claim"
"""Name of the index by the claims that pods use. Parts that share an informer share the index."""


def by_claim(pod: Pod) -> Sequence[str]:
    """Return ``namespace/name`` of every claim that ``pod`` uses, as the index function of `BY_CLAIM`."""
    values = claim_names(pod)
    for number, name in enumerate(values):
        values[number] = f"{pod.metadata.namespace}/{name}"
    return values


def extended_claim_name(pod: Pod) -> str:
    """Return the name of the claim that was made for the pod's extended resources, "" if there is none."""
    status = pod.status.extended_resource_claim_status
    return status.resource_claim_name if status is not None else ""


def template_names(pod: Pod) -> list[str]:
    """Return the names of the templates that the pod uses."""
    return [
        template for entry in pod.spec.resource_claims if (template := claim_source(entry).resource_claim_template_name)
    ]


def pod_group_name(pod: Pod) -> str:
    """Return the name of the pod's PodGroup, "" if it has none."""
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group is not None else ""


BY_GROUP: Final = "pod-group"
"""Name of the index of pods by their PodGroup; shared as `BY_CLAIM` is."""


def by_group(pod: Pod) -> Sequence[str]:
    """Return ``namespace/name`` of the pod's PodGroup, if it has one, as the index function of `BY_GROUP`."""
    name = pod_group_name(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def same_group(old: Pod, new: Pod) -> bool:
    """Return True if both states of a pod are identical in what `by_group` reads."""
    return old.spec.scheduling_group is new.spec.scheduling_group


def is_done_with_claims(pod: Pod) -> bool:
    """Return True if the pod will never use its claims (again): it has ended, or was deleted before it was scheduled.

    Source: ``pkg/controller/resourceclaim/controller.go`` (isPodDone).
    """
    if pod.status.phase in TERMINAL_PHASES:
        return True
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name


def check_owner(claim: KubeObject, pod: Pod, group: str) -> None:
    """Make sure that a generated claim was made for this pod, or for the PodGroup of its that is named ``group``.

    ``group`` is "" while the gate DRAWorkloadResourceClaims is off, or if the pod has none. Source: IsForPod.

    Raises:
        NotOwner: it was made for something else.
    """
    if is_made_for(claim, pod, group):
        return
    why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    raise NotOwner(claim, f"Pod {_plain(pod)}", why)


def check_group_owner(claim: ResourceClaim, group: PodGroup) -> None:
    """Make sure that a generated claim, which all pods of a PodGroup share, was made for it.

    Raises:
        NotOwner: it was made for something else.
    """
    if not is_controlled_by(claim, group):
        raise NotOwner(claim, f"PodGroup {group.metadata.namespace}/{group.metadata.name}", "PodGroup is not owner")


def is_made_for(claim: KubeObject, pod: Pod, group: str) -> bool:
    """Return True if `check_owner` has no error."""
    owner = controller_of(claim)
    if owner is None or owner.uid == pod.metadata.uid:
        return owner is not None
    scheduling = owner.api_version.partition("/")[0] == SCHEDULING_GROUP
    return bool(group) and scheduling and (owner.kind, owner.name) == ("PodGroup", group)


def is_reserved_for(claim: ResourceClaim, pod: Pod, group: PodGroup | None) -> bool:
    """Return True if the pod, or its PodGroup, is among the claim's consumers (scheduler)."""
    if not claim.status.reserved_for:
        return False
    uids = (pod.metadata.uid,) if group is None else (pod.metadata.uid, group.metadata.uid)
    return any(consumer.uid in uids for consumer in claim.status.reserved_for)


def is_reserved_for_group_named(claim: ResourceClaim, pod: Pod, group: str) -> bool:
    """Return True if the pod, or the PodGroup named ``group``, is among the claim's consumers (controllers, node)."""
    uid = pod.metadata.uid
    for consumer in claim.status.reserved_for:
        if consumer.uid == uid:
            return True
        if group and (consumer.api_group, consumer.resource, consumer.name) == (SCHEDULING_GROUP, "podgroups", group):
            return True
    return False


def pod_consumer(pod: Pod) -> ResourceClaimConsumerReference:
    """Return the entry in ``reservedFor`` that reserves a claim for the pod."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def group_consumer(group: PodGroup) -> ResourceClaimConsumerReference:
    """Return the entry in ``reservedFor`` that reserves a claim for all pods of the PodGroup."""
    return ResourceClaimConsumerReference(
        api_group=SCHEDULING_GROUP, resource="podgroups", name=group.metadata.name, uid=group.metadata.uid
    )


def _plain(obj: KubeObject) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def _quoted(pod: Pod) -> str:
    return f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
