"""Deletes finished jobs when their time is up (ttlSecondsAfterFinished; docs/spec/controllers.md §7)."""

from __future__ import annotations

from cathedra.api.core.batch_v1 import Job
from cathedra.api.status import StatusError
from cathedra.client.objects import ObjectKey, key_of
from cathedra.client.resources import JOBS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext


class TTLAfterFinishedController:
    """Deletes jobs (foreground) ``ttlSecondsAfterFinished`` after they have finished."""

    name = "ttl-after-finished-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._jobs = context.informers.of(JOBS)
        self._jobs.add_handler(on_add=self._changed, on_update=lambda _, job: self._changed(job))

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._jobs.wait_synced()
        await run_workers(self._queue, self._reconcile, workers=5)

    def _changed(self, job: Job) -> None:
        if _expiry(job) is not None and job.metadata.deletion_timestamp is None:
            self._queue.add(key_of(job))

    async def _reconcile(self, key: ObjectKey) -> float | None:
        job = self._jobs.store.get(*key)
        expiry = _expiry(job) if job is not None else None
        if job is None or expiry is None or job.metadata.deletion_timestamp is not None:
            return None
        if expiry > self._clock.now():
            return expiry - self._clock.now()
        jobs = self._client.resource(JOBS, key.namespace)
        try:
            # The TTL may have been raised a moment ago: only the server knows the latest.
            fresh = await jobs.get(key.name)
            expiry = _expiry(fresh)
            if fresh.metadata.uid == job.metadata.uid and expiry is not None and expiry <= self._clock.now():
                await jobs.delete(key.name, uid=job.metadata.uid, propagation_policy="Foreground")
        except StatusError as error:
            if not error.is_not_found:
                raise
        return None


def _expiry(job: Job) -> float | None:
    """Return the time at which the job is deleted (epoch seconds); None if never or not known yet."""
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None:
        return None
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True" and condition.last_transition_time:
            return condition.last_transition_time.timestamp + ttl
    return None
