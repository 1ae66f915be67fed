"""The stateful set controller: pods with names of their own, one after the other.

A pod that is recreated keeps its name but not its uid, so a claim from a template is new with every incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.api.core.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from cathedra.api.core.core_v1 import Pod, PodTemplateSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.objects import ObjectKey
from cathedra.client.resources import STATEFULSETS
from cathedra.client.workqueue import RetryLater
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import PodEventTexts, in_batches, pod_from_template
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.statefulset.volumeclaims import (
    VolumeClaimError,
    VolumeClaims,
    is_member,
    ordinal_of,
    ordinals_of,
    pod_volumes,
)
from cathedra.controllers.workloads.templates import REVISION_HASH, resolve
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.owners import controller_of
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

    def wants(self, obj: StatefulSet, pod: Pod) -> bool:
        """Selected pods whose names the set could have given."""
        return is_member(obj, pod) and super().wants(obj, pod)

    def _revision_deleted(self, revision: ControllerRevision) -> None:
        """A revision that is still in use is made again, also while its set waits for its pods to end."""
        owner = controller_of(revision)
        if owner is not None and owner.kind == self.ref.kind:
            self.queue.add(ObjectKey(revision.metadata.namespace, owner.name))

    async def sync(self, obj: StatefulSet, pods: list[Pod]) -> float | None:
        """Make, replace or delete the next pod in order, then write the status; also if that failed."""
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
