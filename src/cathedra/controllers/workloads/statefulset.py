"""The stateful set controller: pods with names of their own, one after the other.

A pod that is recreated keeps its name but not its uid, so a claim from a template is new with every incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.api.core.apps_v1 import StatefulSet, StatefulSetStatus
from cathedra.api.core.core_v1 import PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, STATEFULSETS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.podcontrol import PodEventTexts, pod_from_template
from cathedra.controllers.workloads.revisions import Revisions
from cathedra.controllers.workloads.templates import REVISION_HASH
from cathedra.controllers.workloads.workload import WorkloadController
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
        self._revisions = Revisions(context.client, context.informers)

    async def wait_for_more(self) -> None:
        """Wait for the revisions."""
        await self._revisions.informer.wait_synced()

    async def sync(self, obj: StatefulSet, pods: list[Pod]) -> float | None:
        """Make, replace or delete the next pod in order, then write the status."""
        if obj.metadata.deletion_timestamp is not None:
            return None
        update = await self._revisions.current(obj, obj.spec.template, obj.spec.revision_history_limit)
        current = obj.status.current_revision.removeprefix(f"{obj.metadata.name}-") or update
        by_ordinal = {ordinal: pod for pod in pods if (ordinal := _ordinal(obj, pod)) is not None}
        await self._step(obj, by_ordinal, current, update)
        await self._write_status(obj, list(by_ordinal.values()), current, update)
        return 1.0 if obj.spec.min_ready_seconds and not all(map(self._is_fine(obj), by_ordinal.values())) else None

    def _is_fine(self, obj: StatefulSet) -> Callable[[Pod], bool]:
        return lambda pod: is_available(pod, obj.spec.min_ready_seconds, self.clock.now())

    async def _step(self, obj: StatefulSet, pods: dict[int, Pod], current: str, update: str) -> None:
        parallel = obj.spec.pod_management_policy == "Parallel"
        wanted = _ordinals(obj)
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and is_terminal(pod) and pod.metadata.deletion_timestamp is None:
                await self.control.delete(obj, pod)
            elif pod is None:
                await self._create(obj, ordinal, current, update)
            if not parallel and not self._is_done(obj, pod):
                return
        for ordinal in sorted((o for o in pods if o not in wanted), reverse=True):
            pod = pods[ordinal]
            if pod.metadata.deletion_timestamp is None:
                await self.control.delete(obj, pod)
            if not parallel:
                return
        await self._update(obj, pods, wanted, update)

    def _is_done(self, obj: StatefulSet, pod: Pod | None) -> bool:
        return (
            pod is not None
            and pod.metadata.deletion_timestamp is None
            and is_available(pod, obj.spec.min_ready_seconds, self.clock.now())
        )

    async def _update(self, obj: StatefulSet, pods: dict[int, Pod], wanted: range, update: str) -> None:
        """Replace pods of another revision, from the last to the partition, one at a time."""
        strategy = obj.spec.update_strategy
        if strategy.type == "OnDelete":
            return
        partition = (strategy.rolling_update.partition or 0) if strategy.rolling_update else 0
        for ordinal in reversed(wanted):
            pod = pods.get(ordinal)
            if ordinal < wanted.start + partition or pod is None:
                return
            if pod.metadata.labels.get(REVISION_HASH) != f"{obj.metadata.name}-{update}":
                if pod.metadata.deletion_timestamp is None:
                    await self.control.delete(obj, pod)
                return
            if not self._is_done(obj, pod):
                return

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

    async def _write_status(self, obj: StatefulSet, pods: list[Pod], current: str, update: str) -> None:
        now, name = self.clock.now(), obj.metadata.name
        living = [pod for pod in pods if not is_terminal(pod)]
        # A pod that is being deleted counts as a replica until it has ended, but for no revision.
        staying = [pod.metadata.labels.get(REVISION_HASH) for pod in living if pod.metadata.deletion_timestamp is None]
        updated = staying.count(f"{name}-{update}")
        ready = sum(map(is_ready, living))
        rolling = obj.spec.update_strategy.type != "OnDelete"
        if rolling and updated == len(living) == len(_ordinals(obj)) and ready == len(living):
            current = update
        status = StatefulSetStatus(
            observed_generation=obj.metadata.generation,
            replicas=len(living),
            ready_replicas=ready,
            available_replicas=sum(is_available(pod, obj.spec.min_ready_seconds, now) for pod in living),
            current_replicas=staying.count(f"{name}-{current}"),
            updated_replicas=updated,
            current_revision=f"{name}-{current}",
            update_revision=f"{name}-{update}",
            collision_count=obj.status.collision_count or 0,
            conditions=obj.status.conditions,
        )
        if status != obj.status:
            await self.client.resource(STATEFULSETS, obj.metadata.namespace).update_status(replace(obj, status=status))


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
