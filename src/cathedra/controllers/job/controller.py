"""The job controller: creates pods, counts them, and ends the job.

Every sync has the same steps: count the pods, decide whether the job is over, create or delete pods, write the status,
and take the finalizer off pods that have been written down (docs/spec/controllers.md §7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from cathedra.api.core.batch_v1 import Job, JobStatus
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.api.undecodable import Undecodable, rest_of
from cathedra.client.resources import JOBS, PODS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.finalizers import remove_finalizer
from cathedra.controllers.job import outcome as outcomes
from cathedra.controllers.job.groups import JobGroups, in_group
from cathedra.controllers.job.outcome import JobOutcome, entered, settled, tally, uncounted, with_condition
from cathedra.controllers.job.pods import (
    TRACKING,
    PodFailures,
    all_failures,
    completion_index,
    finish_time,
    is_indexed,
    is_tracked,
    new_pod,
    pause_after,
    replaces_only_failed,
)
from cathedra.controllers.podcontrol import (
    BY_CONTROLLER,
    ORPHANS,
    PodControl,
    PodControllerRefManager,
    attempt_all,
    controlled_pods,
    least_done_first,
    orphan_places,
    same_orphan_places,
    selects,
)
from cathedra.semantics.conditions import is_true
from cathedra.semantics.owners import controller_of, controller_uid, same_owners
from cathedra.semantics.pods import is_ready, is_terminal

BATCH_SECONDS: Final = 1.0
"""Changes of a job's pods are collected for so long (SyncJobBatchPeriod)."""
WORKERS: Final = 5
MOST_PODS_PER_SYNC: Final = 500
_OWN_MANAGER: Final = "kubernetes.io/job-controller"


class JobKey(NamedTuple):
    """A job, or a pod that may have lost its job."""

    kind: Literal["job", "orphan"]
    namespace: str
    name: str


class JobController:
    """Runs jobs to completion."""

    name = "job-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self.resets_start_time = context.enabled("MutableSchedulingDirectivesForSuspendedJobs")
        """True if a job that is suspended forgets when it was started, so that its template may be changed."""
        self._recorder = context.recorder("job-controller")
        self._queue: WorkQueue[JobKey] = context.queue()
        self._jobs = context.informers.of(JOBS)
        self._pods = context.informers.of(PODS)
        self._expected_pods: Expectations[str] = Expectations(self._pods, context.clock)
        self._expected_jobs: Expectations[str] = Expectations(self._jobs, context.clock)
        self._control = PodControl(context.client, self._recorder, self._expected_pods)
        self._failures: dict[str, PodFailures] = {}
        """Failures in a row by the job's uid."""
        self._jobs.store.add_index(BY_NAMESPACE, by_namespace)
        self._pods.store.add_index(BY_CONTROLLER, controller_uid, same_owners)
        self._pods.store.add_index(ORPHANS, orphan_places, same_orphan_places)
        self.groups = JobGroups(context, self._recorder) if context.enabled("WorkloadWithJob") else None
        self._jobs.add_handler(
            on_add=self._enqueue,
            on_update=lambda _, job: self._enqueue(job),
            on_delete=self._job_deleted,
            # It has not gone: its pods stay tracked.
            on_undecodable=lambda _: None,
            on_resolved=self._job_resolved,
        )
        self._pods.add_handler(
            on_add=self._pod_changed,
            on_update=self._pod_updated,
            on_delete=self._pod_changed,
            on_resolved=self._pod_resolved,
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._jobs.wait_synced()
        await self._pods.wait_synced()
        if self.groups is not None:
            await self.groups.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    def _enqueue(self, job: Job) -> None:
        self._queue.add(JobKey("job", job.metadata.namespace, job.metadata.name))

    def _job_deleted(self, job: Job) -> None:
        self._job_gone(job.metadata.uid)

    def _job_resolved(self, what: Undecodable, job: Job | None) -> None:
        """Handle a job that could not be decoded: it can be now and is reported next, or it has gone (None)."""
        if job is None:
            self._job_gone(what.uid)

    def _pod_resolved(self, what: Undecodable, pod: Pod | None) -> None:
        """Handle a pod that could not be decoded: it can be now and is reported next, or it has gone (None)."""
        rest, _ = rest_of(Pod, what)
        if pod is None and rest is not None:
            self._pod_changed(rest)

    def _job_gone(self, uid: str) -> None:
        self._expected_pods.forget(uid)
        self._expected_jobs.forget(uid)
        self._failures.pop(uid, None)
        for pod in self._pods.store.by_index(BY_CONTROLLER, uid):
            self._queue.add(JobKey("orphan", pod.metadata.namespace, pod.metadata.name))

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        if old.metadata.owner_references != pod.metadata.owner_references:
            self._pod_changed(old)
        self._pod_changed(pod)

    def _pod_changed(self, pod: Pod) -> None:
        metadata = pod.metadata
        if not (metadata.owner_references or metadata.finalizers or self._jobs.store.by_key):
            return  # no job's, and every pod of the cluster comes by
        owner = controller_of(pod)
        if owner is not None and owner.kind == "Job":
            # Pods that end together are counted together.
            self._queue.add_after(JobKey("job", pod.metadata.namespace, owner.name), BATCH_SECONDS)
        if owner is None:
            for job in self._selecting(pod):
                self._enqueue(job)
        if is_tracked(pod) and not self._has_job(pod):
            self._queue.add(JobKey("orphan", pod.metadata.namespace, pod.metadata.name))

    def _job_of(self, pod: Pod) -> Job | None:
        owner = controller_of(pod)
        if owner is None or owner.kind != "Job":
            return None
        job = self._jobs.store.get(pod.metadata.namespace, owner.name)
        return job if job is not None and job.metadata.uid == owner.uid else None

    def _has_job(self, pod: Pod) -> bool:
        """Return True if the pod's job exists, also where it cannot be decoded."""
        owner = controller_of(pod)
        return self._job_of(pod) is not None or (
            owner is not None and (pod.metadata.namespace, owner.name) in self._jobs.store.undecodable
        )

    def _is_adoptable(self, pod: Pod) -> bool:
        """Return True if some job is going to adopt the pod."""
        return controller_of(pod) is None and any(
            job.metadata.deletion_timestamp is None for job in self._selecting(pod)
        )

    def _selecting(self, pod: Pod) -> Iterator[Job]:
        for job in self._jobs.store.by_index(BY_NAMESPACE, pod.metadata.namespace):
            if selects(job.spec.selector, pod.metadata.labels):
                yield job

    async def _reconcile(self, key: JobKey) -> float | None:
        if key.kind == "orphan":
            pod = self._pods.store.get(key.namespace, key.name)
            if pod is not None and not self._has_job(pod) and not self._is_adoptable(pod):
                await remove_finalizer(self._client.resource(PODS, key.namespace), pod, TRACKING)
            return None
        job = self._jobs.store.get(key.namespace, key.name)
        if job is None or (job.spec.managed_by or _OWN_MANAGER) != _OWN_MANAGER:
            return None
        await self._expected_pods.find_out(job.metadata.uid, self._client, job)
        if not self._expected_jobs.met(job.metadata.uid) or not self._expected_pods.met(job.metadata.uid):
            # The event of what was written last is still to come, and brings the job here again.
            return 1.0
        if job.metadata.deletion_timestamp is None and not outcomes.has_finished(job):
            await PodControllerRefManager(
                self._control, self._pods.store, job, job.spec.selector, finalizer=TRACKING
            ).claim()
            if not self._expected_pods.met(job.metadata.uid):
                return 1.0
        return await _Sync(self, job).run()


class _Sync:
    """One reconciliation of one job."""

    def __init__(self, controller: JobController, job: Job) -> None:
        self._controller = controller
        self._client = controller._client
        self._recorder = controller._recorder
        self._now = controller._clock.now()
        self._job = job
        self._pods = controlled_pods(controller._pods.store, job.metadata.uid)
        self._tally = tally(job, self._pods, self._now)
        known = controller._failures.get(job.metadata.uid, PodFailures())
        self._failures = known.after(self._tally.newly_succeeded, self._tally.newly_failed, self._now)
        self._short_of_pods = False
        self._group: PodGroup | None = None
        """The group of the job's pods, if they are scheduled as one."""

    async def run(self) -> float | None:
        """Reconcile the job. Return the seconds after which it must be reconciled again."""
        job, counted = self._job, self._tally
        if outcomes.has_finished(job):
            await self._release(pod for pod in self._pods if is_tracked(pod))
            return None
        status = job.status
        if status.start_time is None and not job.spec.suspend:
            status = replace(status, start_time=Time(self._now))
        pause: float | None = None
        outcome = outcomes.decide(job, counted, self._pods, self._now)
        active, ready, terminating = len(counted.active), counted.ready, counted.terminating
        if outcome is not None:
            gone = await self._delete(least_done_first(counted.active), keep_finalizer=True)
            active, terminating = active - len(gone), terminating + len(gone)
            ready -= sum(map(is_ready, gone))
        elif job.metadata.deletion_timestamp is None:
            self._group = await self._controller.groups.of(job, self._pods) if self._controller.groups else None
            created, gone, pause = await self._manage()
            if pause is not None and ready:
                # Kubernetes reports no active pods during the pause, and its API server refuses that as long as others
                # are ready: so nothing is written or counted before the pause is over.
                return _earliest(pause, outcomes.deadline_in(job, self._now))
            active = 0 if pause is not None else active + created - len(gone)
            terminating += len(gone)
            ready -= sum(map(is_ready, gone))
            outcome = outcomes.reached_completions(job, counted) if not active else None
            if outcome is None:
                status = self._with_suspension(status)
        elif not active:
            outcome = outcomes.reached_completions(job, counted)
        entry = entered(
            replace(job, status=status),
            self._pods,
            counted,
            is_over=outcome is not None,
            rest_fails=outcome is not None and outcome.final == "Failed",
        )
        status = replace(entry.status, active=active, terminating=terminating, ready=ready)
        if outcome is not None:
            status = with_condition(status, outcome.interim, "True", outcome.reason, outcome.message, self._now)
        status = await self._write(status)
        self._controller._failures[job.metadata.uid] = self._failures
        await self._release(entry.released)
        status = await self._count(status, entry.released)
        if outcome is not None and entry.is_last:
            await self._finish(status, outcome)
        if self._short_of_pods:
            raise RetryLater("not all pods could be created")
        # Once the outcome is decided only the pods' ends matter, and each of them brings the job here again.
        return _earliest(pause, outcomes.deadline_in(self._job, self._now) if outcome is None else None)

    # Pods.

    async def _manage(self) -> tuple[int, Sequence[Pod], float | None]:
        """Create or delete pods: how many were created, which were deleted, and the pause if there is one."""
        job, counted = self._job, self._tally
        wanted = self._wanted()
        doomed = self._surplus(max(0, len(counted.active) - wanted))
        if doomed:
            return 0, await self._delete(doomed[:MOST_PODS_PER_SYNC], keep_finalizer=False), None
        missing = wanted - len(counted.active)
        if replaces_only_failed(job):
            missing -= counted.terminating
        if missing <= 0 or job.spec.suspend:
            return 0, (), None
        missing = min(missing, MOST_PODS_PER_SYNC)
        if job.spec.backoff_limit_per_index is None:
            pause = self._failures.pause(self._now)
            if pause > 0:
                return 0, (), pause
            indexes = self._next_indexes(missing) if is_indexed(job) else [None] * missing
            return await self._create([new_pod(job, index) for index in indexes]), (), None
        due, pause = self._due_indexes(self._next_indexes(missing))
        if pause > 0:
            return 0, (), pause
        replaced = counted.awaiting_replacement
        return await self._create([new_pod(job, index, replaced.get(index)) for index in due]), (), None

    def _wanted(self) -> int:
        job, counted = self._job, self._tally
        if job.spec.suspend:
            return 0
        parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
        if job.spec.completions is None:
            # A work queue: no new pod is made once the first has found the queue empty.
            return len(counted.active) if counted.succeeded > 0 else parallelism
        return max(0, min(parallelism, job.spec.completions - counted.succeeded))

    def _surplus(self, count: int) -> list[Pod]:
        """At least ``count`` active pods to give up: first those whose index is taken by another or does not exist."""
        ranked = least_done_first(self._tally.active)
        if not is_indexed(self._job) or self._job.spec.suspend:
            return ranked[:count]
        best: dict[int | None, Pod] = {completion_index(pod): pod for pod in ranked}
        kept = {
            pod.metadata.uid
            for index, pod in best.items()
            if index is not None and index < (self._job.spec.completions or 0)
        }
        double = [pod for pod in ranked if pod.metadata.uid not in kept]
        single = [pod for pod in ranked if pod.metadata.uid in kept]
        return double + single[: max(0, count - len(double))]

    def _next_indexes(self, count: int) -> list[int]:
        """Return the first ``count`` indexes that are neither done nor being worked on."""
        taken = {completion_index(pod) for pod in self._tally.active}
        if replaces_only_failed(self._job):
            taken |= {
                completion_index(pod)
                for pod in self._pods
                if pod.metadata.deletion_timestamp is not None and not is_terminal(pod)
            }
        taken |= self._tally.completed_indexes | self._tally.failed_indexes
        free = (index for index in range(self._job.spec.completions or 0) if index not in taken)
        return [index for index, _ in zip(free, range(count), strict=False)]

    def _due_indexes(self, indexes: Iterable[int]) -> tuple[list[int], float]:
        """Return the indexes whose back-off has passed; if there are none, the seconds until the first one does."""
        pauses: dict[int, float] = {}
        for index in indexes:
            failed = self._tally.awaiting_replacement.get(index)
            pauses[index] = (
                pause_after(all_failures(failed) + 1, finish_time(failed, self._now), self._now) if failed else 0.0
            )
        due = [index for index, pause in pauses.items() if pause <= 0]
        return due, 0.0 if due else min(pauses.values(), default=0.0)

    async def _create(self, pods: Sequence[Pod]) -> int:
        created, batch = 0, 1
        if self._group is not None:
            pods = [in_group(pod, self._group) for pod in pods]
        # Batches grow while all goes well, so that a full quota costs few refused requests.
        while created < len(pods):
            part = pods[created : created + batch]
            results = await attempt_all(part, self._create_one)
            failures = [result for result in results if isinstance(result, BaseException)]
            created += len(part) - len(failures)
            if failures:
                self._short_of_pods = True
                for failure in failures:
                    if not isinstance(failure, (StatusError, ConnectionError)):
                        raise failure
                break
            batch *= 2
        return created

    async def _create_one(self, pod: Pod) -> None:
        job = self._job
        try:
            created = await self._client.resource(PODS, job.metadata.namespace).create(pod)
        except StatusError as error:
            if error.is_namespace_terminating:
                return
            self._recorder.record(job, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        except ConnectionError:
            self._controller._expected_pods.doubt(job.metadata.uid)
            raise
        self._controller._expected_pods.expect(job.metadata.uid, created)
        self._recorder.record(job, "Normal", "SuccessfulCreate", f"Created pod: {created.metadata.name}")

    async def _delete(self, pods: Sequence[Pod], *, keep_finalizer: bool) -> Sequence[Pod]:
        """Delete pods; those that lose their finalizer first are never counted as failed."""
        job = self._job
        resource = self._client.resource(PODS, job.metadata.namespace)
        for pod in pods:
            written: Pod | None = pod
            if not keep_finalizer:
                written = await remove_finalizer(resource, pod, TRACKING)
            try:
                written = await resource.delete(pod.metadata.name, uid=pod.metadata.uid)
            except StatusError as error:
                if error.is_not_found:
                    continue
                self._recorder.record(job, "Warning", "FailedDelete", f"Error deleting: {error}")
                raise
            self._controller._expected_pods.expect(job.metadata.uid, written)
            self._recorder.record(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        return pods

    # Status.

    def _with_suspension(self, status: JobStatus) -> JobStatus:
        job = self._job
        suspended = is_true(status.conditions, "Suspended")
        if job.spec.suspend and not suspended:
            self._recorder.record(job, "Normal", "Suspended", "Job suspended")
            status = with_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", self._now)
            return replace(status, start_time=None) if self._controller.resets_start_time else status
        if not job.spec.suspend and suspended:
            self._recorder.record(job, "Normal", "Resumed", "Job resumed")
            status = with_condition(status, "Suspended", "False", "JobResumed", "Job resumed", self._now)
            return replace(status, start_time=Time(self._now))
        return status

    async def _write(self, status: JobStatus) -> JobStatus:
        if status == self._job.status:
            return status
        jobs = self._client.resource(JOBS, self._job.metadata.namespace)
        self._job = await jobs.update_status(replace(self._job, status=status))
        self._controller._expected_jobs.expect(self._job.metadata.uid, self._job)
        return self._job.status

    async def _count(self, status: JobStatus, released: Iterable[Pod]) -> JobStatus:
        """Count the recorded pods that have lost their finalizer."""
        gone = {pod.metadata.uid for pod in released}
        tracked = {pod.metadata.uid for pod in self._pods if is_tracked(pod)}
        return await self._write(settled(status, frozenset(tracked - gone)))

    async def _release(self, pods: Iterable[Pod]) -> None:
        resource = self._client.resource(PODS, self._job.metadata.namespace)
        for pod in pods:
            written = await remove_finalizer(resource, pod, TRACKING)
            self._controller._expected_pods.expect(self._job.metadata.uid, written)

    async def _finish(self, status: JobStatus, outcome: JobOutcome) -> None:
        """Set the final condition once every pod has ended and is counted."""
        job = self._job
        waiting = uncounted(replace(job, status=status))
        if status.active or status.terminating or waiting.succeeded or waiting.failed:
            return
        status = with_condition(status, outcome.final, "True", outcome.reason, outcome.message, self._now)
        if outcome.final == "Complete":
            status = replace(status, completion_time=Time(self._now))
        await self._write(replace(status, ready=0))
        if outcome.final == "Complete":
            if job.spec.completions is not None and status.succeeded > job.spec.completions:
                text = "Too many succeeded pods running after completion count reached"
                self._recorder.record(job, "Warning", "TooManySucceededPods", text)
            self._recorder.record(job, "Normal", "Completed", "Job completed")
        else:
            self._recorder.record(job, "Warning", outcome.reason, outcome.message)


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
