"""The deployment controller: rolls pods from one template to the next by growing and shrinking replica sets."""

from __future__ import annotations

import asyncio
from typing import Final

from cathedra.api.core.apps_v1 import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.objects import ObjectKey, key_of, with_metadata
from cathedra.client.resources import DEPLOYMENTS, PODS, REPLICASETS
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.podcontrol import BY_CONTROLLER
from cathedra.controllers.workloads.rollout import down_step, limits, up_step
from cathedra.controllers.workloads.templates import POD_TEMPLATE_HASH, same_template, template_hash, with_label
from cathedra.semantics.conditions import find_condition, with_condition_moved_last
from cathedra.semantics.owners import controller_of, controller_reference, controller_uid
from cathedra.semantics.pods import is_active

__all__ = ["DeploymentController"]

REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = frozenset({REVISION, DESIRED, MAXIMUM, "kubectl.kubernetes.io/last-applied-configuration"})
_BY_DEPLOYMENT: Final = "replicaset-controller-uid"


class DeploymentController:
    """Owns replica sets."""

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
        self._sets.store.add_index(_BY_DEPLOYMENT, controller_uid)
        self._pods.store.add_index(BY_CONTROLLER, controller_uid)
        self._deployments.add_handler(
            on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new), on_delete=self._forget
        )
        self._sets.add_handler(
            on_add=self._set_changed, on_update=lambda _, new: self._set_changed(new), on_delete=self._set_changed
        )
        self._pods.add_handler(on_delete=self._pod_deleted)

    async def run(self) -> None:
        """Work until cancelled."""
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

    def _pod_deleted(self, pod: object) -> None:
        """Recreate waits for the last old pod to be gone."""
        for deployment in self._deployments.store:
            if deployment.spec.strategy.type == "Recreate":
                self._enqueue(deployment)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        deployment = self._deployments.store.get(*key)
        if deployment is None:
            return None
        if not self._expectations.met(deployment.metadata.uid):
            return 1.0
        sets = list(self._sets.store.by_index(_BY_DEPLOYMENT, deployment.metadata.uid))
        if deployment.metadata.deletion_timestamp is None:
            await self._roll(deployment, sets)
        if not self._expectations.met(deployment.metadata.uid):
            return 0.1
        return await self._write_status(deployment, sets)

    # Rolling.

    async def _roll(self, deployment: Deployment, sets: list[ReplicaSet]) -> None:
        newest = _newest(deployment, sets)
        if deployment.spec.paused:
            only = newest or max((s for s in sets if _size(s)), key=_revision, default=None)
            if only is not None and sum(_size(s) > 0 for s in sets) <= 1:
                await self._scale(deployment, only, _replicas(deployment))
            return
        old = [candidate for candidate in sets if candidate is not newest]
        if deployment.spec.strategy.type == "Recreate":
            await self._recreate(deployment, newest, old)
            return
        newest = await self._ensure_newest(deployment, newest, old)
        await self._rolling_update(deployment, newest, old)
        await self._clean_up(deployment, newest, old)

    async def _recreate(self, deployment: Deployment, newest: ReplicaSet | None, old: list[ReplicaSet]) -> None:
        for replica_set in old:
            await self._scale(deployment, replica_set, 0)
        if any(is_active(pod) for s in old for pod in self._pods.store.by_index(BY_CONTROLLER, s.metadata.uid)):
            return
        newest = await self._ensure_newest(deployment, newest, old)
        await self._scale(deployment, newest, _replicas(deployment))
        await self._clean_up(deployment, newest, old)

    async def _rolling_update(self, deployment: Deployment, newest: ReplicaSet, old: list[ReplicaSet]) -> None:
        replicas = _replicas(deployment)
        rolling = deployment.spec.strategy.rolling_update
        surge, unavailable = limits(
            replicas, rolling.max_surge if rolling else None, rolling.max_unavailable if rolling else None
        )
        total = _size(newest) + sum(map(_size, old))
        wanted = up_step(replicas, surge, _size(newest), total)
        if wanted != _size(newest):
            await self._scale(deployment, newest, wanted)
            return
        new_unavailable = max(0, _size(newest) - newest.status.available_replicas)
        budget = down_step(replicas, unavailable, total, new_unavailable)
        # Pods that do not work anyway go first, the oldest version before the younger.
        old = sorted((s for s in old if _size(s)), key=_revision)
        for healthy in (False, True):
            for number, replica_set in enumerate(old):
                broken = max(0, _size(replica_set) - replica_set.status.available_replicas)
                step = min(budget, _size(replica_set) if healthy else broken)
                if step > 0:
                    old[number] = await self._scale(deployment, replica_set, _size(replica_set) - step)
                    budget -= step

    async def _ensure_newest(
        self, deployment: Deployment, newest: ReplicaSet | None, old: list[ReplicaSet]
    ) -> ReplicaSet:
        revision = str(max(map(_revision, old), default=0) + 1)
        if newest is not None:
            if _revision(newest) < int(revision) and old:
                annotations = {**newest.metadata.annotations, REVISION: revision}
                newest = await self._update(deployment, with_metadata(newest, annotations=annotations))
            await self._mark_revision(deployment, str(_revision(newest)))
            return newest
        made = self._new_set(deployment, revision)
        sets = self._client.resource(REPLICASETS, deployment.metadata.namespace)
        try:
            newest = await sets.create(made)
        except StatusError as error:
            if not error.is_already_exists:
                raise
            existing = await sets.get(made.metadata.name)
            owner = controller_of(existing)
            if owner is None or owner.uid != deployment.metadata.uid:
                await self._count_collision(deployment)
            raise RetryLater(str(error)) from error
        self._expectations.expect(deployment.metadata.uid, newest)
        size = _size(newest)
        self._tell_scaling(deployment, newest, 0, size)
        await self._mark_revision(deployment, revision)
        return newest

    def _new_set(self, deployment: Deployment, revision: str) -> ReplicaSet:
        template = deployment.spec.template
        digest = template_hash(template, deployment.status.collision_count or 0)
        selector = deployment.spec.selector
        if selector is not None:
            selector = replace(selector, match_labels={**selector.match_labels, POD_TEMPLATE_HASH: digest})
        annotations = {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_COPIED}
        existing = self._sets.store.by_index(_BY_DEPLOYMENT, deployment.metadata.uid)
        replicas = _replicas(deployment)
        if deployment.spec.strategy.type != "Recreate":
            rolling = deployment.spec.strategy.rolling_update
            surge, _ = limits(replicas, rolling.max_surge if rolling else None, 0)
            replicas = up_step(replicas, surge, 0, sum(map(_size, existing)))
        return ReplicaSet(
            metadata=ObjectMeta(
                name=f"{deployment.metadata.name}-{digest}",
                namespace=deployment.metadata.namespace,
                labels={**template.metadata.labels, POD_TEMPLATE_HASH: digest},
                annotations={**annotations, REVISION: revision, **_size_annotations(deployment)},
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
        before = _size(replica_set)
        annotations = {**replica_set.metadata.annotations, **_size_annotations(deployment)}
        if before == size and annotations == replica_set.metadata.annotations:
            return replica_set
        changed = with_metadata(replica_set, annotations=annotations)
        changed = replace(changed, spec=replace(changed.spec, replicas=size))
        changed = await self._update(deployment, changed)
        if before != size:
            self._tell_scaling(deployment, changed, before, size)
        return changed

    async def _update(self, deployment: Deployment, replica_set: ReplicaSet) -> ReplicaSet:
        updated = await self._client.resource(REPLICASETS, replica_set.metadata.namespace).update(replica_set)
        self._expectations.expect(deployment.metadata.uid, updated)
        return updated

    def _tell_scaling(self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {after}"
        self._recorder.record(deployment, "Normal", "ScalingReplicaSet", message)

    async def _clean_up(self, deployment: Deployment, newest: ReplicaSet, old: list[ReplicaSet]) -> None:
        """Forget versions beyond the history limit, once the rollout is complete."""
        limit = 10 if deployment.spec.revision_history_limit is None else deployment.spec.revision_history_limit
        empty = [s for s in old if not _size(s) and not s.status.replicas and s.metadata.deletion_timestamp is None]
        if newest.status.available_replicas < _replicas(deployment):
            return
        for replica_set in sorted(empty, key=_revision)[: max(0, len(empty) - limit)]:
            await self._client.resource(REPLICASETS, replica_set.metadata.namespace).delete(
                replica_set.metadata.name, uid=replica_set.metadata.uid
            )

    # Status.

    async def _write_status(self, deployment: Deployment, sets: list[ReplicaSet]) -> float | None:
        deployment = self._deployments.store.get(*key_of(deployment)) or deployment
        newest = _newest(deployment, sets)
        available = sum(s.status.available_replicas for s in sets)
        total = sum(s.status.replicas for s in sets)
        status = DeploymentStatus(
            observed_generation=deployment.metadata.generation,
            replicas=total,
            updated_replicas=newest.status.replicas if newest else 0,
            ready_replicas=sum(s.status.ready_replicas for s in sets),
            available_replicas=available,
            unavailable_replicas=max(0, sum(map(_size, sets)) - available),
            terminating_replicas=sum(s.status.terminating_replicas or 0 for s in sets),
            collision_count=deployment.status.collision_count,
            conditions=deployment.status.conditions,
        )
        status, wait = self._with_conditions(deployment, status, newest)
        if status != deployment.status:
            await self._client.resource(DEPLOYMENTS, deployment.metadata.namespace).update_status(
                replace(deployment, status=status)
            )
        return wait

    def _with_conditions(
        self, deployment: Deployment, status: DeploymentStatus, newest: ReplicaSet | None
    ) -> tuple[DeploymentStatus, float | None]:
        replicas, now = _replicas(deployment), self._clock.now()
        rolling = deployment.spec.strategy.rolling_update
        _, unavailable = limits(
            replicas, rolling.max_surge if rolling else None, rolling.max_unavailable if rolling else None
        )
        if deployment.spec.strategy.type == "Recreate":
            unavailable = 0
        if status.available_replicas >= replicas - unavailable:
            told = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            told = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        old = deployment.status
        status = _with_condition(status, "Available", told, now, moved=False)
        deadline = deployment.spec.progress_deadline_seconds
        if deadline is None or deadline == 2**31 - 1 or newest is None:
            return status, None
        known = find_condition(status.conditions, "Progressing")
        if (
            known is not None
            and known.reason == "NewReplicaSetAvailable"
            and status.replicas == status.updated_replicas
        ):
            # The rollout is over: scaling, or a pod that fails later, is no new progress.
            return status, None
        shown = f'ReplicaSet "{newest.metadata.name}"'
        complete = status.updated_replicas == status.replicas == status.available_replicas == replicas
        if complete:
            told = ("True", "NewReplicaSetAvailable", f"{shown} has successfully progressed.")
            return _with_condition(status, "Progressing", told, now, moved=False), None
        moved = (
            status.updated_replicas > old.updated_replicas
            or status.replicas - status.updated_replicas < old.replicas - old.updated_replicas
            or status.ready_replicas > old.ready_replicas
            or status.available_replicas > old.available_replicas
        )
        if known is None:
            told = ("True", "NewReplicaSetCreated", f'Created new replica set "{newest.metadata.name}"')
            return _with_condition(status, "Progressing", told, now, moved=True), float(deadline)
        if moved or known.reason == "NewReplicaSetAvailable":
            told = ("True", "ReplicaSetUpdated", f"{shown} is progressing.")
            return _with_condition(status, "Progressing", told, now, moved=True), float(deadline)
        since = known.last_update_time.timestamp if known.last_update_time else now
        left = since + deadline - now
        if left <= 0 and not deployment.spec.paused:
            told = ("False", "ProgressDeadlineExceeded", f"{shown} has timed out progressing.")
            return _with_condition(status, "Progressing", told, now, moved=False), None
        return status, max(left, 1.0)


def _with_condition(
    status: DeploymentStatus, kind: str, told: tuple[str, str, str], now: float, *, moved: bool
) -> DeploymentStatus:
    value, reason, message = told
    new = DeploymentCondition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        last_update_time=Time(now),
        last_transition_time=Time(now),
    )
    if not moved:
        return replace(status, conditions=with_condition_moved_last(status.conditions, new))
    # Progress is told anew each time: the times and the text count, even if nothing else is different.
    old = find_condition(status.conditions, kind)
    if old is not None and old.status == value:
        new = replace(new, last_transition_time=old.last_transition_time)
    return replace(status, conditions=(*(c for c in status.conditions if c.type != kind), new))


def _newest(deployment: Deployment, sets: list[ReplicaSet]) -> ReplicaSet | None:
    """The set of the present template; the oldest if there are several."""
    matching = [s for s in sets if same_template(s.spec.template, deployment.spec.template)]
    return min(matching, key=lambda s: (s.metadata.creation_timestamp or Time(0), s.metadata.name), default=None)


def _replicas(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def _size(replica_set: ReplicaSet) -> int:
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def _revision(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _size_annotations(deployment: Deployment) -> dict[str, str]:
    replicas = _replicas(deployment)
    rolling = deployment.spec.strategy.rolling_update
    surge, _ = limits(replicas, rolling.max_surge if rolling else None, 0)
    if deployment.spec.strategy.type == "Recreate":
        surge = 0
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge)}
