"""The cron job controller: makes a job whenever one is due, and clears old ones away.

Spec: docs/spec/controllers.md §7.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cathedra.api.core.batch_v1 import CronJob, CronJobStatus, Job
from cathedra.api.core.core_v1 import ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.goquote import go_quote
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.objects import ObjectKey, key_of, reference_to
from cathedra.client.resources import CRONJOBS, JOBS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.job.outcome import has_finished
from cathedra.kinds.batch.cronjobs import Schedule, ScheduleError, most_recent, parse_schedule
from cathedra.semantics.conditions import is_true
from cathedra.semantics.owners import controller_of, controller_reference

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
WORKERS: Final = 5
TOO_MANY_MISSED: Final = 100
KEPT_SUCCESSFUL: Final = 3
KEPT_FAILED: Final = 1
_BY_CRONJOB: Final = "cronjob-uid"


class CronJobController:
    """Makes jobs by the clock."""

    name = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder("cronjob-controller")
        self._queue: WorkQueue[ObjectKey] = context.queue()
        self._cron_jobs = context.informers.of(CRONJOBS)
        self._jobs = context.informers.of(JOBS)
        self._expected: Expectations[str] = Expectations(self._cron_jobs, context.clock)
        self._expected_jobs: Expectations[str] = Expectations(self._jobs, context.clock)
        self._jobs.store.add_index(_BY_CRONJOB, _owner_uid)
        self._cron_jobs.add_handler(on_add=self._enqueue, on_update=self._updated, on_delete=self._forget)
        self._jobs.add_handler(
            on_add=self._job_changed, on_update=lambda _, new: self._job_changed(new), on_delete=self._job_changed
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._cron_jobs.wait_synced()
        await self._jobs.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    def _enqueue(self, cron_job: CronJob) -> None:
        self._queue.add(key_of(cron_job))

    def _updated(self, old: CronJob, new: CronJob) -> None:
        """Enqueue a changed cron job.

        A new schedule counts from now on: jobs that it would have started earlier are not started.
        """
        if (old.spec.schedule, old.spec.time_zone) == (new.spec.schedule, new.spec.time_zone):
            self._enqueue(new)
            return
        try:
            schedule = parse_schedule(new.spec.schedule, _zone(new))
        except (ScheduleError, ZoneInfoNotFoundError, ValueError):
            # The next reconciliation reports it.
            return
        following = schedule.after(self._clock.now())
        if following is not None:
            self._queue.add_after(key_of(new), following - self._clock.now())

    def _forget(self, cron_job: CronJob) -> None:
        self._expected.forget(cron_job.metadata.uid)
        self._expected_jobs.forget(cron_job.metadata.uid)

    def _job_changed(self, job: Job) -> None:
        owner = controller_of(job)
        if owner is not None and owner.kind == "CronJob":
            self._queue.add(ObjectKey(job.metadata.namespace, owner.name))

    async def _reconcile(self, key: ObjectKey) -> float | None:
        cron_job = self._cron_jobs.store.get(*key)
        if cron_job is None:
            return None
        uid = cron_job.metadata.uid
        if not self._expected.met(uid) or not self._expected_jobs.met(uid):
            # The event of what was written last is still to come, and brings the cron job here again.
            return 1.0
        jobs = list(self._jobs.store.by_index(_BY_CRONJOB, uid))
        await self._clear_away(cron_job, jobs)
        status = self._with_outcomes(cron_job, jobs)
        again: float | None = None
        if cron_job.metadata.deletion_timestamp is None and not cron_job.spec.suspend:
            schedule = self._schedule(cron_job)
            if schedule is not None:
                status = await self._start_due(cron_job, schedule, status)
                following = schedule.after(self._clock.now())
                again = following - self._clock.now() if following is not None else None
        if status != cron_job.status:
            wanted = replace(cron_job, status=status)
            # Until the event of this write arrives, the informer has the old status and would start the same job again.
            self._expected.expect(uid, await self._client.resource(CRONJOBS, key.namespace).update_status(wanted))
        return again

    # What has been.

    def _with_outcomes(self, cron_job: CronJob, jobs: list[Job]) -> CronJobStatus:
        """Return the status without active jobs that have ended or vanished, and with the last completion time."""
        by_uid = {job.metadata.uid: job for job in jobs}
        status = cron_job.status
        known = {reference.uid for reference in status.active}
        active: list[ObjectReference] = []
        for reference in status.active:
            job = by_uid.get(reference.uid)
            if job is None:
                self._record(cron_job, "Normal", "MissingJob", f"Active job went missing: {reference.name}")
            elif has_finished(job):
                kind = "Complete" if is_true(job.status.conditions, "Complete") else "Failed"
                text = f"Saw completed job: {job.metadata.name}, condition: {kind}"
                self._record(cron_job, "Normal", "SawCompletedJob", text)
            else:
                active.append(reference)
        for job in jobs:
            if job.metadata.uid not in known and not has_finished(job):
                text = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
                self._record(cron_job, "Warning", "UnexpectedJob", text)
        ends = [job.status.completion_time for job in jobs if job.status.completion_time is not None]
        if status.last_successful_time is not None:
            ends.append(status.last_successful_time)
        return replace(status, active=tuple(active), last_successful_time=max(ends, default=None))

    async def _clear_away(self, cron_job: CronJob, jobs: list[Job]) -> None:
        spec = cron_job.spec
        for kind, limit, default in (
            ("Complete", spec.successful_jobs_history_limit, KEPT_SUCCESSFUL),
            ("Failed", spec.failed_jobs_history_limit, KEPT_FAILED),
        ):
            kept = default if limit is None else limit
            # Oldest first, with the name as a second key, so that the choice does not depend on the order of events.
            ended = sorted((job for job in jobs if is_true(job.status.conditions, kind)), key=_age)
            for job in ended[: max(0, len(ended) - kept)]:
                await self._delete(cron_job, job.metadata.name, job.metadata.uid)

    async def _delete(self, cron_job: CronJob, name: str, uid: str) -> None:
        try:
            await self._client.resource(JOBS, cron_job.metadata.namespace).delete(
                name, uid=uid, propagation_policy="Background"
            )
        except StatusError as error:
            if not error.is_not_found:
                self._record(cron_job, "Warning", "FailedDelete", f"Deleted job: {error}")
                raise
            return
        self._record(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name}")

    # What is due.

    def _schedule(self, cron_job: CronJob) -> Schedule | None:
        spec = cron_job.spec
        try:
            zone = _zone(cron_job)
        except (ZoneInfoNotFoundError, ValueError) as error:
            text = f"invalid timeZone: {go_quote(spec.time_zone or '')}: {error}"
            self._record(cron_job, "Warning", "UnknownTimeZone", text)
            return None
        try:
            return parse_schedule(spec.schedule, zone)
        except ScheduleError as error:
            text = f"unparseable schedule: {go_quote(spec.schedule)} : {error}"
            self._record(cron_job, "Warning", "UnparseableSchedule", text)
            return None

    async def _start_due(self, cron_job: CronJob, schedule: Schedule, status: CronJobStatus) -> CronJobStatus:
        due = self._due(cron_job, schedule)
        if due is None:
            return status
        # The name follows from the time, so that a second attempt after a crash finds the first job instead of starting
        # another.
        name = f"{cron_job.metadata.name}-{int(due) // 60}"
        # The status may be ahead of the informer of jobs, or behind it; either one is enough to know that the job
        # exists.
        if any(reference.name == name for reference in status.active) or status.last_schedule_time == Time(due):
            return status
        policy = cron_job.spec.concurrency_policy
        if policy == "Forbid" and status.active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._record(cron_job, "Normal", "JobAlreadyActive", text)
            return status
        if policy == "Replace":
            for reference in status.active:
                # With the UID: a job of that name that a user has made must not be deleted.
                await self._delete(cron_job, reference.name, reference.uid)
            status = replace(status, active=())
        job = await self._create(cron_job, name, due)
        if job is None:
            return status
        return replace(status, active=(*status.active, reference_to(job)), last_schedule_time=Time(due))

    def _due(self, cron_job: CronJob, schedule: Schedule) -> float | None:
        """Return the last start time (in seconds) that was missed and is not too late; None if there is none."""
        now, spec = self._clock.now(), cron_job.spec
        last = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
        earliest = last.timestamp if last is not None else now
        if spec.starting_deadline_seconds is not None:
            # Bounds the search, too: a cron job that was suspended for a year has half a million missed minutes.
            earliest = max(earliest, now - spec.starting_deadline_seconds)
        due, missed = most_recent(schedule, earliest, now)
        if missed > TOO_MANY_MISSED:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._record(cron_job, "Warning", "TooManyMissedTimes", text)
        return due

    async def _create(self, cron_job: CronJob, name: str, due: float) -> Job | None:
        template = cron_job.spec.job_template
        stamp = datetime.fromtimestamp(due, _zone(cron_job)).isoformat().replace("+00:00", "Z")
        metadata = ObjectMeta(
            name=name,
            namespace=cron_job.metadata.namespace,
            labels=template.metadata.labels,
            annotations={**template.metadata.annotations, SCHEDULED_AT: stamp},
            owner_references=(controller_reference(cron_job),),
        )
        jobs = self._client.resource(JOBS, cron_job.metadata.namespace)
        try:
            job = await jobs.create(Job(metadata=metadata, spec=template.spec))
        except StatusError as error:
            if not error.is_already_exists:
                if not error.is_namespace_terminating:
                    self._record(cron_job, "Warning", "FailedCreate", f"Error creating job: {error}")
                raise
            # Made before a crash, or while the informer was behind.
            job = await jobs.get(name)
            owner = controller_of(job)
            # A job of that name with another owner is left alone and not counted as started.
            return job if owner is not None and owner.uid == cron_job.metadata.uid else None
        self._expected_jobs.expect(cron_job.metadata.uid, job)
        self._record(cron_job, "Normal", "SuccessfulCreate", f"Created job {name}")
        return job

    def _record(self, cron_job: CronJob, kind: str, reason: str, message: str) -> None:
        self._recorder.record(cron_job, "Warning" if kind == "Warning" else "Normal", reason, message)


def _zone(cron_job: CronJob) -> tzinfo:
    return ZoneInfo(cron_job.spec.time_zone) if cron_job.spec.time_zone is not None else UTC


def _owner_uid(job: Job) -> tuple[str, ...]:
    owner = controller_of(job)
    return (owner.uid,) if owner is not None and owner.kind == "CronJob" else ()


def _age(job: Job) -> tuple[float, str]:
    start = job.status.start_time or job.metadata.creation_timestamp
    return (start.timestamp if start is not None else 0.0, job.metadata.name)
