"""The deployment controller: rolls pods from one template to the next by growing and shrinking replica sets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from cathedra.api.core.apps_v1 import (
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
)
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.objects import ObjectKey, key_of, with_metadata
from cathedra.client.resources import DEPLOYMENTS, PODS, REPLICASETS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.podcontrol import BY_CONTROLLER, selects
from cathedra.controllers.workloads.replicasets import (
    REVISION,
    by_age,
    copied_annotations,
    creation_failed,
    has_newest_form,
    is_being_scaled,
    newest_annotations,
    newest_of,
    numbers,
    only_or_latest,
    paused_status,
    proportional_sizes,
    replicas_of,
    revision_of,
    rollout_status,
    seconds_left,
    size_annotations,
    size_of,
    surge_of,
    unavailable_of,
)
from cathedra.controllers.workloads.templates import (
    POD_TEMPLATE_HASH,
    down_step,
    limits,
    template_hash,
    up_step,
    with_label,
)
from cathedra.semantics.owners import controller_of, controller_reference, controller_uid, is_controlled_by, same_owners
from cathedra.semantics.pods import is_terminal

_BY_DEPLOYMENT: Final = "replicaset-controller-uid"
_ORPHANS: Final = "orphan-replicasets"


class DeploymentController:
    """Reconciles deployments with their replica sets."""

    name = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder("deployment-controller")
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._deployments = context.informers.of(DEPLOYMENTS)
        self._sets = context.informers.of(REPLICASETS)
        self._pods = context.informers.of(PODS)
        self._expectations: Expectations[str] = Expectations(self._sets, context.clock)
        self._sets.store.add_index(_BY_DEPLOYMENT, controller_uid, same_owners)
        self._sets.store.add_index(_ORPHANS, _orphan_namespace, same_owners)
        self._pods.store.add_index(BY_CONTROLLER, controller_uid, same_owners)
        self._deployments.store.add_index(BY_NAMESPACE, by_namespace)
        self._deployments.add_handler(
            on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new), on_delete=self._forget
        )
        self._sets.add_handler(
            on_add=self._set_changed, on_update=lambda _, new: self._set_changed(new), on_delete=self._set_changed
        )
        self._pods.add_handler(on_delete=self._pod_deleted)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        for informer in (self._deployments, self._sets, self._pods):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=5))

    def _enqueue(self, deployment: Deployment) -> None:
        self._queue.add(key_of(deployment))

    def _forget(self, deployment: Deployment) -> None:
        self._expectations.forget(deployment.metadata.uid)

    def _set_changed(self, replica_set: ReplicaSet) -> None:
        owner = controller_of(replica_set)
        if owner is not None and owner.kind == "Deployment":
            self._queue.add(ObjectKey(replica_set.metadata.namespace, owner.name))
            return
        for deployment in self._deployments.store.by_index(BY_NAMESPACE, replica_set.metadata.namespace):
            if owner is None and selects(deployment.spec.selector, replica_set.metadata.labels):
                self._enqueue(deployment)

    def _pod_deleted(self, pod: Pod) -> None:
        """Recreate waits for the last old pod to be gone."""
        owner = controller_of(pod)
        replica_set = self._sets.store.get(pod.metadata.namespace, owner.name) if owner is not None else None
        above = controller_of(replica_set) if replica_set is not None else None
        deployment = self._deployments.store.get(pod.metadata.namespace, above.name) if above is not None else None
        if deployment is not None and deployment.spec.strategy.type == "Recreate":
            self._enqueue(deployment)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        deployment = self._deployments.store.get(*key)
        if deployment is None:
            return None
        if not self._expectations.met(deployment.metadata.uid):
            return 1.0
        if deployment.metadata.deletion_timestamp is None:
            await self._claim_sets(deployment)
            if not self._expectations.met(deployment.metadata.uid):
                return 0.1
        sets = list(self._sets.store.by_index(_BY_DEPLOYMENT, deployment.metadata.uid))
        newest = newest_of(deployment, sets)
        now = self._clock.now()
        if deployment.metadata.deletion_timestamp is not None:
            return await self._write(deployment, numbers(deployment, sets, newest, now))
        told = paused_status(deployment, now)
        if told != deployment.status:
            return await self._write(deployment, told)
        if deployment.spec.paused or is_being_scaled(deployment, sets):
            old = [candidate for candidate in sets if candidate is not newest]
            if newest is not None:
                newest = await self._keep_up(deployment, newest, old)
            await self._resize(deployment, newest, old)
            if deployment.spec.paused:
                await self._clean_up(deployment, old)
            if not self._expectations.met(deployment.metadata.uid):
                return 0.1
            return await self._write(deployment, numbers(deployment, sets, newest, now))
        made = await self._roll(deployment, newest, sets)
        if made is None and not self._expectations.met(deployment.metadata.uid):
            return 0.1
        if made is not None:
            # Its revision has just been written to the deployment.
            deployment = await self._client.resource(DEPLOYMENTS, key.namespace).get(key.name)
            sets = [*sets, made]
        status = rollout_status(deployment, sets, made or newest, created=made is not None, now=now)
        return await self._write(deployment, status)

    async def _claim_sets(self, deployment: Deployment) -> None:
        """Adopt matching replica sets without a controller, and release those that no longer match."""
        metadata, selector = deployment.metadata, deployment.spec.selector
        for candidate in tuple(self._sets.store.by_index(_ORPHANS, metadata.namespace)):
            if candidate.metadata.deletion_timestamp is None and selects(selector, candidate.metadata.labels):
                owners = (*candidate.metadata.owner_references, controller_reference(deployment))
                await self._update(deployment, with_metadata(candidate, owner_references=owners))
        for mine in tuple(self._sets.store.by_index(_BY_DEPLOYMENT, metadata.uid)):
            if not selects(selector, mine.metadata.labels):
                owners = tuple(owner for owner in mine.metadata.owner_references if owner.uid != metadata.uid)
                await self._update(deployment, with_metadata(mine, owner_references=owners))

    async def _resize(self, deployment: Deployment, newest: ReplicaSet | None, old: list[ReplicaSet]) -> None:
        """Bring the replica sets to the size of the deployment without rolling any further."""
        replicas = replicas_of(deployment)
        only = only_or_latest(newest, old)
        if only is not None:
            await self._scale(deployment, only, replicas)
        elif newest is not None and size_of(newest) == newest.status.available_replicas == replicas:
            for replica_set in old:
                await self._scale(deployment, replica_set, 0)
        elif deployment.spec.strategy.type != "Recreate":
            active = [s for s in (*old, newest) if s is not None and size_of(s)]
            for replica_set, size in proportional_sizes(deployment, active):
                await self._scale(deployment, replica_set, size)

    # Rolling.

    async def _roll(
        self, deployment: Deployment, newest: ReplicaSet | None, sets: list[ReplicaSet]
    ) -> ReplicaSet | None:
        """Go one step from the old replica sets to the newest; that, if it was made only now."""
        old = [candidate for candidate in sets if candidate is not newest]
        if deployment.spec.strategy.type == "Recreate":
            return await self._recreate(deployment, newest, old)
        known = newest
        newest = await self._ensure_newest(deployment, newest, old)
        if known is None:
            return newest
        if not await self._rolling_update(deployment, newest, old) and self._is_complete(deployment):
            await self._clean_up(deployment, old)
        return None

    async def _recreate(
        self, deployment: Deployment, newest: ReplicaSet | None, old: list[ReplicaSet]
    ) -> ReplicaSet | None:
        running = [replica_set for replica_set in old if size_of(replica_set)]
        for replica_set in running:
            await self._scale(deployment, replica_set, 0)
        pods = (pod for s in old for pod in self._pods.store.by_index(BY_CONTROLLER, s.metadata.uid))
        if running or any(s.status.replicas for s in old) or not all(map(is_terminal, pods)):
            return None
        known = newest
        newest = await self._ensure_newest(deployment, newest, old)
        if known is None:
            return newest
        await self._scale(deployment, newest, replicas_of(deployment))
        if self._is_complete(deployment):
            await self._clean_up(deployment, old)
        return None

    def _is_complete(self, deployment: Deployment) -> bool:
        status = deployment.status
        wanted = replicas_of(deployment)
        if status.observed_generation < deployment.metadata.generation:
            return False
        return status.updated_replicas == status.replicas == status.available_replicas == wanted

    async def _rolling_update(self, deployment: Deployment, newest: ReplicaSet, old: list[ReplicaSet]) -> bool:
        """Grow the newest set, or else shrink old ones; whether anything was changed."""
        replicas = replicas_of(deployment)
        total = size_of(newest) + sum(map(size_of, old))
        wanted = up_step(replicas, surge_of(deployment), size_of(newest), total)
        if wanted != size_of(newest):
            await self._scale(deployment, newest, wanted)
            return True
        unavailable = unavailable_of(deployment)
        budget = down_step(replicas, unavailable, total, size_of(newest) - newest.status.available_replicas)
        # Pods that do not work anyway go first, the oldest version before the younger.
        old = by_age([s for s in old if size_of(s)])
        before = list(map(size_of, old))
        for number, replica_set in enumerate(old if budget > 0 else ()):
            step = min(budget, size_of(replica_set) - replica_set.status.available_replicas)
            if step > 0:
                old[number] = await self._scale(deployment, replica_set, size_of(replica_set) - step)
                budget -= step
        available = sum(s.status.available_replicas for s in (*old, newest))
        spare = available - (replicas - unavailable) if budget > 0 else 0
        for number, replica_set in enumerate(old):
            step = min(spare, size_of(replica_set))
            if step > 0:
                old[number] = await self._scale(deployment, replica_set, size_of(replica_set) - step)
                spare -= step
        return before != list(map(size_of, old))

    async def _ensure_newest(
        self, deployment: Deployment, newest: ReplicaSet | None, old: list[ReplicaSet]
    ) -> ReplicaSet:
        if newest is not None:
            return await self._keep_up(deployment, newest, old)
        revision = str(max(map(revision_of, old), default=0) + 1)
        made = self._new_set(deployment, revision)
        sets = self._client.resource(REPLICASETS, deployment.metadata.namespace)
        try:
            newest = await sets.create(made)
        except StatusError as error:
            if not error.is_already_exists:
                await self._record_failure(deployment, made, error)
                raise
            existing = await sets.get(made.metadata.name)
            if not is_controlled_by(existing, deployment) or newest_of(deployment, [existing]) is None:
                await self._count_collision(deployment)
            raise RetryLater(str(error)) from error
        self._expectations.expect(deployment.metadata.uid, newest)
        if size_of(newest):
            self._record_scaling(deployment, newest, 0, size_of(newest))
        await self._mark_revision(deployment, revision)
        return newest

    async def _keep_up(self, deployment: Deployment, newest: ReplicaSet, old: list[ReplicaSet]) -> ReplicaSet:
        """Update the current version's replica set from its deployment, also after a rollback."""
        if not has_newest_form(deployment, newest, old):
            changed = with_metadata(newest, annotations=newest_annotations(deployment, newest, old))
            ready = deployment.spec.min_ready_seconds
            changed = replace(changed, spec=replace(changed.spec, min_ready_seconds=ready))
            newest = await self._update(deployment, changed)
        await self._mark_revision(deployment, str(revision_of(newest)))
        return newest

    async def _record_failure(self, deployment: Deployment, made: ReplicaSet, error: StatusError) -> None:
        if error.is_namespace_terminating:
            return
        message = f'Failed to create new replica set "{made.metadata.name}": {error}'
        status = creation_failed(deployment, message, self._clock.now())
        if status != deployment.status:
            await self._client.resource(DEPLOYMENTS, deployment.metadata.namespace).update_status(
                replace(deployment, status=status)
            )
        self._recorder.record(deployment, "Warning", "ReplicaSetCreateError", message)

    def _new_set(self, deployment: Deployment, revision: str) -> ReplicaSet:
        template = deployment.spec.template
        digest = template_hash(template, deployment.status.collision_count or 0)
        selector = deployment.spec.selector
        if selector is not None:
            selector = replace(selector, match_labels={**selector.match_labels, POD_TEMPLATE_HASH: digest})
        existing = self._sets.store.by_index(_BY_DEPLOYMENT, deployment.metadata.uid)
        replicas = replicas_of(deployment)
        if deployment.spec.strategy.type != "Recreate":
            rolling = deployment.spec.strategy.rolling_update
            surge, _ = limits(replicas, rolling.max_surge if rolling else None, 0)
            replicas = up_step(replicas, surge, 0, sum(map(size_of, existing)))
        return ReplicaSet(
            metadata=ObjectMeta(
                name=f"{deployment.metadata.name}-{digest}",
                namespace=deployment.metadata.namespace,
                labels={**template.metadata.labels, POD_TEMPLATE_HASH: digest},
                annotations={**copied_annotations(deployment), REVISION: revision, **size_annotations(deployment)},
                owner_references=(controller_reference(deployment),),
            ),
            spec=ReplicaSetSpec(
                replicas=replicas,
                min_ready_seconds=deployment.spec.min_ready_seconds,
                selector=selector,
                template=with_label(template, POD_TEMPLATE_HASH, digest),
            ),
        )

    async def _count_collision(self, deployment: Deployment) -> None:
        status = replace(deployment.status, collision_count=(deployment.status.collision_count or 0) + 1)
        await self._client.resource(DEPLOYMENTS, deployment.metadata.namespace).update_status(
            replace(deployment, status=status)
        )

    async def _mark_revision(self, deployment: Deployment, revision: str) -> None:
        if deployment.metadata.annotations.get(REVISION) == revision:
            return
        fresh = await self._client.resource(DEPLOYMENTS, deployment.metadata.namespace).get(deployment.metadata.name)
        annotations = {**fresh.metadata.annotations, REVISION: revision}
        if annotations != fresh.metadata.annotations:
            await self._client.resource(DEPLOYMENTS, deployment.metadata.namespace).update(
                with_metadata(fresh, annotations=annotations)
            )

    async def _scale(self, deployment: Deployment, replica_set: ReplicaSet, size: int) -> ReplicaSet:
        before = size_of(replica_set)
        annotations = {**replica_set.metadata.annotations, **size_annotations(deployment)}
        if before == size and annotations == replica_set.metadata.annotations:
            return replica_set
        changed = with_metadata(replica_set, annotations=annotations)
        changed = replace(changed, spec=replace(changed.spec, replicas=size))
        changed = await self._update(deployment, changed)
        if before != size:
            self._record_scaling(deployment, changed, before, size)
        return changed

    async def _update(self, deployment: Deployment, replica_set: ReplicaSet) -> ReplicaSet:
        updated = await self._client.resource(REPLICASETS, replica_set.metadata.namespace).update(replica_set)
        self._expectations.expect(deployment.metadata.uid, updated)
        return updated

    def _record_scaling(self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {after}"
        self._recorder.record(deployment, "Normal", "ScalingReplicaSet", message)

    async def _clean_up(self, deployment: Deployment, old: list[ReplicaSet]) -> None:
        """Delete versions beyond the history limit."""
        limit = 10 if deployment.spec.revision_history_limit is None else deployment.spec.revision_history_limit
        alive = [replica_set for replica_set in old if replica_set.metadata.deletion_timestamp is None]
        for replica_set in sorted(by_age(alive), key=revision_of)[: max(0, len(alive) - limit)]:
            is_observed = replica_set.metadata.generation <= replica_set.status.observed_generation
            if size_of(replica_set) or replica_set.status.replicas or not is_observed:
                continue
            await self._client.resource(REPLICASETS, replica_set.metadata.namespace).delete(
                replica_set.metadata.name, uid=replica_set.metadata.uid
            )

    # Status.

    async def _write(self, deployment: Deployment, status: DeploymentStatus) -> float | None:
        """Write the status if it has changed. Return the seconds after which progress is checked again."""
        if status != deployment.status:
            await self._client.resource(DEPLOYMENTS, deployment.metadata.namespace).update_status(
                replace(deployment, status=status)
            )
        return seconds_left(deployment, status, self._clock.now()) if not deployment.spec.paused else None


def _orphan_namespace(replica_set: ReplicaSet) -> Iterator[str]:
    if controller_of(replica_set) is None:
        yield replica_set.metadata.namespace
