"""Volume claims and ordinals of a stateful set's pods.

Claims are created before the pod. Nothing here deletes a claim: the retention policy decides on its owner, the set or a
pod that is scaled away, and the garbage collector deletes it with that owner. Source:
``pkg/controller/statefulset/stateful_pod_control.go`` and ``stateful_set_utils.go``; KEP-1847.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cathedra.api.core.apps_v1 import StatefulSet
from cathedra.api.core.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume
from cathedra.api.core.meta_v1 import KubeObject, OwnerReference
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS
from cathedra.client.workqueue import RetryLater
from cathedra.semantics.owners import controller_reference


class VolumeClaimError(RetryLater):
    """A pod's volume claims cannot be created. An event was recorded; a retry may succeed."""


class Retention(NamedTuple):
    """True if claims go with the set, and with a pod that is scaled away."""

    goes_with_set: bool
    goes_with_pod: bool


def retention(obj: StatefulSet) -> Retention:
    """The set's policy; without one everything stays."""
    policy = obj.spec.persistent_volume_claim_retention_policy
    if policy is None:
        return Retention(goes_with_set=False, goes_with_pod=False)
    return Retention(policy.when_deleted == "Delete", policy.when_scaled == "Delete")


def pod_volumes(obj: StatefulSet, pod_name: str) -> Iterator[Volume]:
    """The volumes of a pod that are made of the set's templates."""
    for template in obj.spec.volume_claim_templates:
        source = PersistentVolumeClaimVolumeSource(claim_name=f"{template.metadata.name}-{pod_name}")
        yield Volume(name=template.metadata.name, persistent_volume_claim=source)


def is_owned_as_wanted(obj: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return True if the claim's owners are those of the policy. Claims with foreign owners count as right and are left
    alone.
    """
    # The garbage collector is about to delete the claim with its former owner: changing it now would keep it alive.
    if _is_stale(claim, obj) or _is_stale(claim, pod):
        return True
    of_set, of_pod = _is_owner(obj, claim), _is_owner(pod, claim)
    if _has_other_controller(obj, pod, claim):
        return not (of_set or of_pod)
    ours = (obj.metadata.uid, pod.metadata.uid)
    # References of older releases lack the mark of a controller and are rewritten.
    if any(owner.uid in ours and not owner.controller for owner in claim.metadata.owner_references):
        return False
    wants_set, wants_pod = _wanted(obj, pod)
    return (of_set, of_pod) == (wants_set, wants_pod)


def wanted_owners(obj: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> tuple[OwnerReference, ...]:
    """The owners that the claim is to have: others stay, those of the set and the pod follow the policy."""
    kept = tuple(
        owner for owner in claim.metadata.owner_references if not (_refers_to(owner, obj) or _refers_to(owner, pod))
    )
    if _has_other_controller(obj, pod, claim):
        return kept
    wants_set, wants_pod = _wanted(obj, pod)
    owners = [*([obj] if wants_set else []), *([pod] if wants_pod else [])]
    return (*kept, *(controller_reference(owner) for owner in owners))


def _wanted(obj: StatefulSet, pod: Pod) -> tuple[bool, bool]:
    """Return True if the set owns the pod's claims, and whether the pod itself does."""
    policy, ordinal = retention(obj), ordinal_of(obj, pod)
    is_scaled_away = ordinal is None or not is_wanted(obj, ordinal)
    of_pod = policy.goes_with_pod and is_scaled_away
    # Never both: the claim would live until the last of the two owners is gone.
    return policy.goes_with_set and not of_pod, of_pod


def _refers_to(owner: OwnerReference, obj: KubeObject) -> bool:
    reference = controller_reference(obj)
    return (owner.api_version, owner.kind, owner.name) == (reference.api_version, reference.kind, reference.name)


def _is_owner(obj: KubeObject, claim: PersistentVolumeClaim) -> bool:
    return any(owner.uid == obj.metadata.uid for owner in claim.metadata.owner_references)


def _is_stale(claim: PersistentVolumeClaim, obj: KubeObject) -> bool:
    """Return True if the first owner of that kind and name is an earlier object."""
    owner = next((owner for owner in claim.metadata.owner_references if _refers_to(owner, obj)), None)
    return owner is not None and owner.uid != obj.metadata.uid


def _has_other_controller(obj: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return True if something else controls the claim, which matters only if anything is ever deleted."""
    if not any(retention(obj)):
        return False
    for owner in claim.metadata.owner_references:
        ours = next((known for known in (obj, pod) if _refers_to(owner, known)), None)
        if ours is None and owner.controller:
            return True
        if ours is not None and owner.uid != ours.metadata.uid:
            return True
    return False


class VolumeClaims:
    """Makes and hands over the claims of stateful sets' pods."""

    def __init__(self, client: Client, informers: SharedInformers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self.informer = informers.of(PERSISTENTVOLUMECLAIMS)

    async def make_missing(self, obj: StatefulSet, pod_name: str) -> None:
        """Create the missing claims of a pod.

        Raises:
            VolumeClaimError: they cannot be created, or one of them is being deleted.
        """
        problems: list[str] = []
        whose = f"Pod {pod_name} in StatefulSet {obj.metadata.name}"
        resource = self._client.resource(PERSISTENTVOLUMECLAIMS, obj.metadata.namespace)
        for claim in _claims(obj, pod_name):
            name = claim.metadata.name
            known = self.informer.store.get(obj.metadata.namespace, name)
            if known is not None:
                # The pod would mount a volume that disappears.
                if known.metadata.deletion_timestamp is not None:
                    problems.append(f"pvc {name} is being deleted")
                continue
            try:
                await resource.create(claim)
            except StatusError as error:
                if error.is_already_exists:
                    # Made by the run before, and not yet seen here.
                    continue
                problems.append(f"failed to create PVC {name}: {error}")
                text = f"Create Claim {name} for {whose} failed error: {error}"
                self._recorder.record(obj, "Warning", "FailedCreate", text)
                continue
            text = f"Create Claim {name} {whose} success"
            self._recorder.record(obj, "Normal", "SuccessfulCreate", text)
        if problems:
            raise VolumeClaimError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def is_waiting_for_old(self, obj: StatefulSet, pod_name: str) -> bool:
        """Return True if a new pod has to wait until the claims that went with its predecessor are gone."""
        if not retention(obj).goes_with_pod:
            return False
        return any(
            (owner.api_version, owner.kind, owner.name) == ("v1", "Pod", pod_name)
            for claim in self._of_pod(obj, pod_name)
            for owner in claim.metadata.owner_references
        )

    def are_owned_as_wanted(self, obj: StatefulSet, pod: Pod) -> bool:
        """Return True if the owners of all the pod's claims are those of the policy."""
        return all(is_owned_as_wanted(obj, pod, claim) for claim in self._of_pod(obj, pod.metadata.name))

    async def hand_over(self, obj: StatefulSet, pod: Pod) -> None:
        """Set the owners of the pod's claims according to the policy."""
        resource = self._client.resource(PERSISTENTVOLUMECLAIMS, obj.metadata.namespace)
        for claim in tuple(self._of_pod(obj, pod.metadata.name)):
            if _has_other_controller(obj, pod, claim):
                text = (
                    f"PersistentVolumeClaim {claim.metadata.name} has a conflicting OwnerReference that acts as a "
                    "manging controller, the retention policy is ignored for this claim"
                )
                self._recorder.record(obj, "Warning", "ConflictingController", text)
            if not is_owned_as_wanted(obj, pod, claim):
                await resource.update(with_metadata(claim, owner_references=wanted_owners(obj, pod, claim)))

    def _of_pod(self, obj: StatefulSet, pod_name: str) -> Iterator[PersistentVolumeClaim]:
        for template in obj.spec.volume_claim_templates:
            claim = self.informer.store.get(obj.metadata.namespace, f"{template.metadata.name}-{pod_name}")
            if claim is not None:
                yield claim


def _claims(obj: StatefulSet, pod_name: str) -> Iterator[PersistentVolumeClaim]:
    labels = obj.spec.selector.match_labels if obj.spec.selector else {}
    for template in obj.spec.volume_claim_templates:
        yield with_metadata(
            template,
            name=f"{template.metadata.name}-{pod_name}",
            namespace=obj.metadata.namespace,
            labels={**template.metadata.labels, **labels},
        )


_NAME: Final = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
_LARGEST: Final = 2**31 - 1


def ordinals_of(obj: StatefulSet) -> range:
    """The ordinals that are to have a pod."""
    start = obj.spec.ordinals.start if obj.spec.ordinals else 0
    return range(start, start + (1 if obj.spec.replicas is None else obj.spec.replicas))


def is_wanted(obj: StatefulSet, ordinal: int) -> bool:
    """Return True if the set is to have a pod of that number."""
    return ordinal in ordinals_of(obj)


def is_member(obj: StatefulSet, pod: Pod) -> bool:
    """Return True if the pod's name is one that the set gives."""
    found = _NAME.fullmatch(pod.metadata.name)
    return found is not None and found[1] == obj.metadata.name


def ordinal_of(obj: StatefulSet, pod: Pod) -> int | None:
    """The number in the pod's name; None if that is not a name of the set's."""
    found = _NAME.fullmatch(pod.metadata.name)
    if found is None or found[1] != obj.metadata.name or len(found[2]) > len(str(_LARGEST)):
        return None
    ordinal = int(found[2])
    return ordinal if ordinal <= _LARGEST else None
