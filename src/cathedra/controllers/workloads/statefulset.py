"""The stateful set controller: pods with names of their own, one after the other.

A pod that is recreated keeps its name but not its uid, so a claim from a template is new with every incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.api.core.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from cathedra.api.core.core_v1 import PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.objects import ObjectKey, with_metadata
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, STATEFULSETS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import PodEventTexts, pod_from_template
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.rollout import resolve
from cathedra.controllers.workloads.templates import REVISION_HASH
from cathedra.controllers.workloads.workload import WorkloadController
from cathedra.semantics.owners import controller_of
from cathedra.semantics.pods import is_available, is_ready, is_terminal

__all__ = ["StatefulSetController"]

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
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, STATEFULSETS)
        self._several_at_once = context.enabled("MaxUnavailableStatefulSet")
        self._revisions = Revisions(context.client, context.informers)
        self._revisions.informer.add_handler(on_delete=self._revision_deleted)

    async def wait_for_more(self) -> None:
        """Wait for the revisions."""
        await self._revisions.informer.wait_synced()

    def _revision_deleted(self, revision: ControllerRevision) -> None:
        """A revision that is still in use is made again, also while its set waits for its pods to end."""
        owner = controller_of(revision)
        if owner is not None and owner.kind == self.ref.kind:
            self.queue.add(ObjectKey(revision.metadata.namespace, owner.name))

    async def sync(self, obj: StatefulSet, pods: list[Pod]) -> float | None:
        """Make, replace or delete the next pod in order, then write the status."""
        update = await self._revisions.current(obj, obj.spec.template, obj.spec.revision_history_limit)
        current = obj.status.current_revision.removeprefix(f"{obj.metadata.name}-") or update
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := _ordinal(obj, pod)) is not None}
        given_up = 0
        if obj.metadata.deletion_timestamp is None:
            given_up = await self._step(obj, by_ordinal, current, update)
        await self._write_status(obj, list(by_ordinal.values()), current, update, given_up)
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
        parallel = _is_parallel(obj)
        for ordinal in _ordinals(obj):
            pod = pods.get(ordinal)
            if pod is None:
                await self._create(obj, ordinal, current, update)
            elif is_terminal(pod) and pod.metadata.deletion_timestamp is None:
                await self.control.delete(obj, pod)
            if not parallel and not self._is_done(obj, pod):
                return True
        return False

    async def _delete_surplus(self, obj: StatefulSet, pods: dict[int, Pod]) -> bool:
        """Delete pods beyond the replicas, the last first; whether that has to be waited for."""
        parallel, wanted = _is_parallel(obj), _ordinals(obj)
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        # In order, only the first pod that is not well may go before it is well again.
        unwell = next((o for o in (*wanted, *reversed(surplus)) if not self._is_done(obj, pods.get(o))), None)
        for ordinal in surplus:
            pod = pods[ordinal]
            blocked = not self._is_fine(obj)(pod) and ordinal != unwell
            if pod.metadata.deletion_timestamp is None and (parallel or not blocked):
                await self.control.delete(obj, pod)
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
        wanted = _ordinals(obj)
        for ordinal in reversed(wanted[partition:]):
            pod = pods.get(ordinal)
            if pod is None:
                return 0
            outdated = pod.metadata.labels.get(REVISION_HASH) != f"{obj.metadata.name}-{update}"
            if outdated and pod.metadata.deletion_timestamp is None:
                await self.control.delete(obj, pod)
                return 1
            if not self._is_done(obj, pod):
                return 0
        return 0

    async def _update_several(self, obj: StatefulSet, pods: dict[int, Pod], update: str, partition: int) -> int:
        """As many at once as may be unavailable; none while that many are."""
        rolling, wanted = obj.spec.update_strategy.rolling_update, _ordinals(obj)
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
        digest = current if ordinal < _ordinals(obj).start + partition else update
        template = self._revisions.template(obj, digest) if digest != update else None
        await self._create_volume_claims(obj, ordinal)
        await self.control.create(obj, _pod(obj, template or obj.spec.template, ordinal, digest))

    async def _create_volume_claims(self, obj: StatefulSet, ordinal: int) -> None:
        claims = self.client.resource(PERSISTENTVOLUMECLAIMS, obj.metadata.namespace)
        for template in obj.spec.volume_claim_templates:
            name = f"{template.metadata.name}-{obj.metadata.name}-{ordinal}"
            labels = obj.spec.selector.match_labels if obj.spec.selector else {}
            claim = with_metadata(
                template,
                name=name,
                namespace=obj.metadata.namespace,
                labels={**template.metadata.labels, **labels},
            )
            try:
                await claims.create(claim)
            except StatusError as error:
                # The volume outlives the pod: it is there since the first incarnation.
                if not error.is_already_exists:
                    raise

    async def _write_status(self, obj: StatefulSet, pods: list[Pod], current: str, update: str, given_up: int) -> None:
        """Pods that are being deleted still count as replicas, but not as replicas of a revision."""
        now, name, wanted = self.clock.now(), obj.metadata.name, len(_ordinals(obj))
        revisions = [pod.metadata.labels.get(REVISION_HASH) for pod in pods if pod.metadata.deletion_timestamp is None]
        updated = revisions.count(f"{name}-{update}")
        of_current = max(0, revisions.count(f"{name}-{current}") - given_up)
        ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
        complete = updated == ready == len(pods) == wanted
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


def _ordinals(obj: StatefulSet) -> range:
    start = obj.spec.ordinals.start if obj.spec.ordinals else 0
    return range(start, start + (1 if obj.spec.replicas is None else obj.spec.replicas))


def _ordinal(obj: StatefulSet, pod: Pod) -> int | None:
    prefix = f"{obj.metadata.name}-"
    text = pod.metadata.name.removeprefix(prefix)
    return int(text) if pod.metadata.name.startswith(prefix) and text.isdigit() else None


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
    volumes = tuple(
        Volume(
            name=claim.metadata.name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=f"{claim.metadata.name}-{name}"),
        )
        for claim in obj.spec.volume_claim_templates
    )
    kept = tuple(volume for volume in made.spec.volumes if volume.name not in own)
    spec = replace(made.spec, hostname=name, subdomain=obj.spec.service_name, volumes=(*kept, *volumes))
    return replace(made, metadata=metadata, spec=spec)
