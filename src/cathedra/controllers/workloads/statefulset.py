"""The stateful set controller: pods with names of their own, one after the other.

A pod that is recreated keeps its name but not its uid, so a claim from a template is new with every incarnation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from cathedra.api.core.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from cathedra.api.core.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta, OwnerReference
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.objects import ObjectKey, with_metadata
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, STATEFULSETS
from cathedra.client.workqueue import RetryLater
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import PodEventTexts, in_batches, pod_from_template
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.templates import REVISION_HASH, resolve
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.owners import controller_of, controller_reference
from cathedra.semantics.pods import is_available, is_ready, is_terminal

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


class StatefulSetController(WorkloadController[StatefulSet]):
    """Keeps stateful sets in order."""

    name = "statefulset-controller"
    component = "statefulset-controller"
    texts = PodEventTexts(
        created="Create Pod {pod} in StatefulSet {owner} successful",
        not_created="Create Pod {pod} in StatefulSet {owner} failed error: {error}",
        deleted="Delete Pod {pod} in StatefulSet {owner} successful",
        not_deleted="Delete Pod {pod} in StatefulSet {owner} failed error: {error}",
        updated="Update Pod {pod} in StatefulSet {owner} successful",
        not_updated="Update Pod {pod} in StatefulSet {owner} failed error: {error}",
        untold=lambda error: error.is_already_exists,
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, STATEFULSETS)
        self._several_at_once = context.enabled("MaxUnavailableStatefulSet")
        self._revisions = Revisions(context.client, context.informers)
        self._revisions.informer.add_handler(on_delete=self._revision_deleted)
        self._volume_claims = VolumeClaims(context.client, context.informers, self.recorder)

    async def wait_for_more(self) -> None:
        """Wait for the revisions and volume claims."""
        await self._revisions.informer.wait_synced()
        await self._volume_claims.informer.wait_synced()

    def membership(self, obj: StatefulSet) -> Callable[[Pod], bool]:
        """Return a test that a pod passes if the set could have given it its name."""
        return partial(is_member, obj)

    def _revision_deleted(self, revision: ControllerRevision) -> None:
        """Enqueue the set of a deleted revision.

        A revision that is still in use is made again, also while its set waits for its pods to end.
        """
        owner = controller_of(revision)
        if owner is not None and owner.kind == self.ref.kind:
            self.queue.add(ObjectKey(revision.metadata.namespace, owner.name))

    async def sync(self, obj: StatefulSet) -> float | None:
        """Make, replace or delete the next pod in order, then write the status; also if that failed."""
        pods = self.controlled(obj)
        update = await self._revisions.current(obj, obj.spec.template)
        current = obj.status.current_revision.removeprefix(f"{obj.metadata.name}-") or update
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := ordinal_of(obj, pod)) is not None}
        given_up, failure = 0, None
        if obj.metadata.deletion_timestamp is None:
            try:
                # The status is written even if this fails: a broken template must be visible before it is repaired.
                given_up = await self._step(obj, by_ordinal, current, update)
            except (StatusError, ConnectionError, RetryLater) as error:
                failure = error
        await self._write_status(obj, list(by_ordinal.values()), current, update, given_up)
        in_use = {pod.metadata.labels.get(REVISION_HASH, "") for pod in pods}
        in_use |= {f"{obj.metadata.name}-{digest}" for digest in (current, update)}
        await self._revisions.forget(obj, obj.spec.revision_history_limit, in_use)
        if failure is not None:
            raise failure
        return 1.0 if obj.spec.min_ready_seconds and not all(map(self._is_fine(obj), by_ordinal.values())) else None

    def _is_fine(self, obj: StatefulSet) -> Callable[[Pod], bool]:
        return lambda pod: _is_running_and_available(pod, obj.spec.min_ready_seconds, self.clock.now())

    async def _step(self, obj: StatefulSet, pods: dict[int, Pod], current: str, update: str) -> int:
        """Replicas first, then surplus pods, then updates; how many pods of the current revision were given up."""
        if await self._keep_replicas(obj, pods, current, update):
            return 0
        if await self._delete_surplus(obj, pods):
            return 0
        return await self._update(obj, pods, update)

    async def _keep_replicas(self, obj: StatefulSet, pods: dict[int, Pod], current: str, update: str) -> bool:
        """Create what is missing and replace what has ended; whether one of them has to be waited for."""

        async def keep(ordinal: int) -> None:
            await self._keep(obj, ordinal, pods.get(ordinal), (current, update))

        if _is_parallel(obj):
            failure = await in_batches(ordinals_of(obj), keep)
            if failure is not None:
                raise failure
            return False
        for ordinal in ordinals_of(obj):
            await keep(ordinal)
            if not self._is_done(obj, pods.get(ordinal)):
                return True
        return False

    async def _keep(self, obj: StatefulSet, ordinal: int, pod: Pod | None, revisions: tuple[str, str]) -> None:
        """Reconcile one pod and its volume claims."""
        if pod is None:
            await self._create(obj, ordinal, *revisions)
            return
        if is_terminal(pod):
            if pod.metadata.deletion_timestamp is None:
                await self.control.delete(obj, pod)
            return
        if pod.status.phase == "Pending":
            await self._volume_claims.make_missing(obj, pod.metadata.name)
            await self._volume_claims.hand_over(obj, pod)
        if not _is_parallel(obj) and not self._is_done(obj, pod):
            return
        labels = {**pod.metadata.labels, POD_NAME: pod.metadata.name, POD_INDEX: str(ordinal)}
        has_identity = pod.metadata.labels.get(POD_NAME) == pod.metadata.name
        if has_identity and self._volume_claims.are_owned_as_wanted(obj, pod):
            return
        await self._volume_claims.hand_over(obj, pod)
        metadata = pod.metadata if has_identity else replace(pod.metadata, labels=labels)
        await self.control.update(obj, replace(pod, metadata=metadata))

    async def _delete_surplus(self, obj: StatefulSet, pods: dict[int, Pod]) -> bool:
        """Delete pods beyond the replicas, the last first; whether that has to be waited for."""
        parallel, wanted = _is_parallel(obj), ordinals_of(obj)
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        for ordinal in surplus:
            if not self._volume_claims.are_owned_as_wanted(obj, pods[ordinal]):
                await self._volume_claims.hand_over(obj, pods[ordinal])
        # In order, only the first pod that is not well may go before it is well again.
        unwell = next((o for o in (*wanted, *reversed(surplus)) if not self._is_done(obj, pods.get(o))), None)
        for ordinal in surplus:
            pod = pods[ordinal]
            blocked = not self._is_fine(obj)(pod) and ordinal != unwell
            if pod.metadata.deletion_timestamp is None and (parallel or not blocked):
                await self.control.delete(obj, pod)
            # One at a time: the application may have to hand over data before the next replica goes.
            if not parallel:
                return True
        return False

    def _is_done(self, obj: StatefulSet, pod: Pod | None) -> bool:
        return pod is not None and pod.metadata.deletion_timestamp is None and self._is_fine(obj)(pod)

    async def _update(self, obj: StatefulSet, pods: dict[int, Pod], update: str) -> int:
        """Replace pods of another revision, from the last to the partition; how many were deleted."""
        strategy = obj.spec.update_strategy
        if strategy.type == "OnDelete":
            return 0
        partition = (strategy.rolling_update.partition or 0) if strategy.rolling_update else 0
        if self._several_at_once:
            return await self._update_several(obj, pods, update, partition)
        wanted = ordinals_of(obj)
        for ordinal in reversed(wanted[partition:]):
            pod = pods.get(ordinal)
            if pod is None:
                return 0
            outdated = pod.metadata.labels.get(REVISION_HASH) != f"{obj.metadata.name}-{update}"
            # The next pod waits until this one is back and ready, so that at most one replica is missing.
            if outdated and pod.metadata.deletion_timestamp is None:
                await self.control.delete(obj, pod)
                return 1
            if not self._is_done(obj, pod):
                return 0
        return 0

    async def _update_several(self, obj: StatefulSet, pods: dict[int, Pod], update: str, partition: int) -> int:
        """As many at once as may be unavailable; none while that many are."""
        rolling, wanted = obj.spec.update_strategy.rolling_update, ordinals_of(obj)
        most = rolling.max_unavailable if rolling is not None else None
        room = max(1, resolve(most, len(wanted), round_up=False, default=1))
        room -= sum(not self._is_done(obj, pods.get(ordinal)) for ordinal in wanted)
        deleted = 0
        for ordinal in reversed(wanted[partition:]):
            pod = pods.get(ordinal)
            if deleted >= room:
                break
            if pod is None or pod.metadata.deletion_timestamp is not None:
                continue
            if pod.metadata.labels.get(REVISION_HASH) != f"{obj.metadata.name}-{update}":
                await self.control.delete(obj, pod)
                deleted += 1
        return deleted

    async def _create(self, obj: StatefulSet, ordinal: int, current: str, update: str) -> None:
        strategy = obj.spec.update_strategy.rolling_update
        partition = (strategy.partition or 0) if strategy else 0
        # Below the partition a lost pod comes back in its old revision; a staged rollout must not advance by accident.
        digest = current if ordinal < ordinals_of(obj).start + partition else update
        template = self._revisions.template(obj, digest) if digest != update else None
        pod = _pod(obj, template or obj.spec.template, ordinal, digest)
        # A claim that is being deleted would be mounted by the new pod and vanish under it.
        if self._volume_claims.is_waiting_for_old(obj, pod.metadata.name):
            return
        try:
            await self._volume_claims.make_missing(obj, pod.metadata.name)
        except VolumeClaimError as error:
            text = self.texts.not_created.format(pod=pod.metadata.name, owner=obj.metadata.name, error=error)
            self.recorder.record(obj, "Warning", "FailedCreate", text)
            raise
        await self.control.create(obj, pod)

    async def _write_status(self, obj: StatefulSet, pods: list[Pod], current: str, update: str, given_up: int) -> None:
        """Pods that are being deleted still count as replicas, but not as replicas of a revision."""
        now, name, wanted = self.clock.now(), obj.metadata.name, len(ordinals_of(obj))
        revisions = [pod.metadata.labels.get(REVISION_HASH) for pod in pods if pod.metadata.deletion_timestamp is None]
        updated = revisions.count(f"{name}-{update}")
        of_current = max(0, revisions.count(f"{name}-{current}") - given_up)
        ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
        complete = updated == ready == len(pods) == wanted
        # Only now the new revision becomes the current one: until then pods below the partition are created from the
        # old one.
        if complete and obj.spec.update_strategy.type != "OnDelete":
            current, of_current = update, updated
        status = StatefulSetStatus(
            observed_generation=obj.metadata.generation,
            replicas=len(pods),
            ready_replicas=ready,
            available_replicas=sum(_is_running_and_available(pod, obj.spec.min_ready_seconds, now) for pod in pods),
            current_replicas=of_current,
            updated_replicas=updated,
            current_revision=f"{name}-{current}",
            update_revision=f"{name}-{update}",
            collision_count=obj.status.collision_count or 0,
            conditions=obj.status.conditions,
        )
        if status != obj.status:
            await self.client.resource(STATEFULSETS, obj.metadata.namespace).update_status(replace(obj, status=status))


def _is_running_and_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    return pod.status.phase == "Running" and is_available(pod, min_ready_seconds, now)


def _is_parallel(obj: StatefulSet) -> bool:
    return obj.spec.pod_management_policy == "Parallel"


def _pod(obj: StatefulSet, template: PodTemplateSpec, ordinal: int, digest: str) -> Pod:
    name = f"{obj.metadata.name}-{ordinal}"
    made = pod_from_template(template, obj)
    labels = {
        **made.metadata.labels,
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        REVISION_HASH: f"{obj.metadata.name}-{digest}",
    }
    metadata: ObjectMeta = replace(made.metadata, generate_name="", name=name, labels=labels)
    own = {claim.metadata.name for claim in obj.spec.volume_claim_templates}
    # Claims take precedence over volumes of the same name in the template, as in Kubernetes.
    volumes = pod_volumes(obj, name)
    kept = tuple(volume for volume in made.spec.volumes if volume.name not in own)
    spec = replace(made.spec, hostname=name, subdomain=obj.spec.service_name, volumes=(*kept, *volumes))
    return replace(made, metadata=metadata, spec=spec)


# Volume claims and ordinals of a stateful set's pods.
#
# Claims are created before the pod. Nothing here deletes a claim: the retention policy decides on its owner, the set
# or a pod that is scaled away, and the garbage collector deletes it with that owner. Source:
# ``pkg/controller/statefulset/stateful_pod_control.go`` and ``stateful_set_utils.go``; KEP-1847.


class VolumeClaimError(RetryLater):
    """A pod's volume claims cannot be created. An event was recorded; a retry may succeed."""


class Retention(NamedTuple):
    """True if claims go with the set, and with a pod that is scaled away."""

    goes_with_set: bool
    goes_with_pod: bool


def retention(obj: StatefulSet) -> Retention:
    """Return the set's policy; without one everything stays."""
    policy = obj.spec.persistent_volume_claim_retention_policy
    if policy is None:
        return Retention(goes_with_set=False, goes_with_pod=False)
    return Retention(policy.when_deleted == "Delete", policy.when_scaled == "Delete")


def pod_volumes(obj: StatefulSet, pod_name: str) -> Iterator[Volume]:
    """Yield the volumes of a pod that are made of the set's templates."""
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
    """Return the owners that the claim is to have: others stay, those of the set and the pod follow the policy."""
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
    """Creates and passes on the claims of stateful sets' pods."""

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
    """Return the ordinals that are to have a pod."""
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
    """Return the number in the pod's name; None if that is not a name of the set's."""
    found = _NAME.fullmatch(pod.metadata.name)
    if found is None or found[1] != obj.metadata.name or len(found[2]) > len(str(_LARGEST)):
        return None
    ordinal = int(found[2])
    return ordinal if ordinal <= _LARGEST else None
