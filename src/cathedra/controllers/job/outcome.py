"""Completion of jobs: conditions and their reasons (docs/spec/controllers.md §7, step 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from cathedra.api.core.batch_v1 import Job, JobCondition, JobStatus
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time, replace
from cathedra.controllers.job.pods import is_indexed
from cathedra.controllers.job.tally import Tally, parse_indexes
from cathedra.semantics.conditions import is_true, with_condition_restarted

_TIMER_SECONDS: Final = 0.001
"""A timer may fire so much before its time."""


class JobOutcome(msgspec.Struct, frozen=True):
    """End of a job: ``final`` is Complete or Failed, ``interim`` the condition before its pods have ended."""

    interim: str
    final: str
    reason: str
    message: str


def _complete(reason: str, message: str) -> JobOutcome:
    return JobOutcome("SuccessCriteriaMet", "Complete", reason, message)


def _failed(reason: str, message: str) -> JobOutcome:
    return JobOutcome("FailureTarget", "Failed", reason, message)


def has_finished(job: Job) -> bool:
    """Return True if the job has its final condition."""
    return is_true(job.status.conditions, "Complete") or is_true(job.status.conditions, "Failed")


def interim_outcome(job: Job) -> JobOutcome | None:
    """The outcome that was decided earlier and waits for pods to end."""
    for condition in job.status.conditions:
        if condition.status != "True":
            continue
        if condition.type == "SuccessCriteriaMet":
            return _complete(condition.reason, condition.message)
        if condition.type == "FailureTarget":
            return _failed(condition.reason, condition.message)
    return None


def with_condition(status: JobStatus, kind: str, value: str, reason: str, message: str, now: float) -> JobStatus:
    """Return the status with a condition set. An equal condition keeps its times."""
    new = JobCondition(
        type=kind,
        status=value,
        last_probe_time=Time(now),
        last_transition_time=Time(now),
        reason=reason,
        message=message,
    )
    return replace(status, conditions=with_condition_restarted(status.conditions, new))


def decide(job: Job, counted: Tally, pods: Iterable[Pod], now: float) -> JobOutcome | None:
    """Return True if the job is to end now, and how; None while it goes on."""
    earlier = interim_outcome(job)
    # A decision stays: pods that succeed while the job is being ended must not turn a failed job into a complete one.
    if earlier is not None:
        return earlier
    if counted.policy_match is not None:
        return _failed("PodFailurePolicy", counted.policy_match.message)
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if counted.failed > limit or _too_many_restarts(job, pods, limit):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if deadline_in(job, now) == 0.0:
        return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
    # Whatever fails the job goes before what lets it succeed early.
    return _failed_indexes(job, counted) or _success_policy(job, counted)


def reached_completions(job: Job, counted: Tally) -> JobOutcome | None:
    """Complete, if enough pods have succeeded and none is active."""
    # The job would otherwise be Complete while pods of it still run and use devices.
    if counted.active:
        return None
    wanted = job.spec.completions
    if (wanted is None and counted.succeeded > 0) or (wanted is not None and counted.succeeded >= wanted):
        return _complete("CompletionsReached", "Reached expected number of succeeded pods")
    return None


def deadline_in(job: Job, now: float) -> float | None:
    """Seconds until the job has been active for too long, 0 from then on; None without a deadline."""
    deadline, start = job.spec.active_deadline_seconds, job.status.start_time
    # A suspended job has no clock running; its start time is set anew when it resumes.
    if deadline is None or start is None or job.spec.suspend:
        return None
    left = start.timestamp + deadline - now
    # Without the margin a timer that fires a moment early would find the deadline ahead, and set itself again and
    # again.
    return left if left > _TIMER_SECONDS else 0.0


def _too_many_restarts(job: Job, pods: Iterable[Pod], limit: int) -> bool:
    """With restartPolicy OnFailure the restarts of containers count."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = 0
    for pod in pods:
        if pod.status.phase in ("Running", "Pending"):
            statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            restarts += sum(status.restart_count for status in statuses)
    # Kubernetes counts so: a limit of zero allows no restart, any other limit is reached by that many restarts.
    return restarts > 0 if limit == 0 else restarts >= limit


def _failed_indexes(job: Job, counted: Tally) -> JobOutcome | None:
    if not is_indexed(job) or job.spec.backoff_limit_per_index is None:
        return None
    most = job.spec.max_failed_indexes
    if most is not None and len(counted.failed_indexes) > most:
        return _failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    # The job goes on after a failed index: the others may have results that are worth keeping.
    over = len(counted.completed_indexes) + len(counted.failed_indexes) >= (job.spec.completions or 0)
    if counted.failed_indexes and over:
        return _failed("FailedIndexes", "Job has failed indexes")
    return None


def _success_policy(job: Job, counted: Tally) -> JobOutcome | None:
    policy = job.spec.success_policy
    if policy is None or not is_indexed(job):
        return None
    for number, rule in enumerate(policy.rules):
        done = counted.completed_indexes
        if rule.succeeded_indexes is not None:
            wanted = parse_indexes(rule.succeeded_indexes, job.spec.completions or 0)
            done &= wanted
            if rule.succeeded_count is None and done != wanted:
                continue
        if rule.succeeded_count is not None and len(done) < rule.succeeded_count:
            continue
        return _complete("SuccessPolicy", f"Matched rules at index {number}")
    return None
