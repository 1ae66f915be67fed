"""Completion of jobs: counts of pods and completed indexes, conditions and their reasons (docs/spec/controllers.md §7,
step 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.batch_v1 import Job, JobCondition, JobStatus, UncountedTerminatedPods
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time, replace
from cathedra.controllers.job.pods import (
    PolicyMatch,
    all_failures,
    completion_index,
    failure_count,
    finish_time,
    has_failed,
    has_valid_index,
    is_indexed,
    is_tracked,
    judge,
)
from cathedra.semantics.conditions import is_true, with_condition_restarted
from cathedra.semantics.pods import is_active, is_ready, is_terminal

_TIMER_SECONDS: Final = 0.001
"""Seconds by which a timer may fire early."""


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
    """Return the outcome that was decided earlier and waits for pods to end."""
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
    """Return the seconds until the job has been active for too long, 0 from then on; None without a deadline."""
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


# Counts of a job's pods, each finished pod exactly once; and sets of completion indexes in short form, as ``0,2-4``.
#
# A finished pod is first recorded by UID in ``status.uncountedTerminatedPods``, then its finalizer is removed, and only
# then a counter is incremented. A crash at any point therefore neither loses a pod nor counts it twice
# (docs/spec/controllers.md §7).

MOST_PER_SYNC = 500
"""Maximum number of finished pods that one sync counts, which bounds the size of the status."""


class Tally(msgspec.Struct, frozen=True):
    """A job's pods, counted."""

    active: tuple[Pod, ...]
    ready: int
    terminating: int
    succeeded: int
    """Including pods that are not yet in the status."""
    failed: int
    newly_succeeded: tuple[Pod, ...]
    """Tracked pods that have ended and are not in the status yet."""
    newly_failed: tuple[Pod, ...]
    """Failed pods that are not counted yet, including those that the failure policy ignores."""
    policy_match: PolicyMatch | None
    """The rule of the failure policy that ends the job, if any."""
    completed_indexes: frozenset[int]
    failed_indexes: frozenset[int]
    awaiting_replacement: Mapping[int, Pod]
    """With a limit per index: the last failed pod of each index that is to be tried again. It stays tracked until its
    replacement has taken over the number of failures."""


def uncounted(job: Job) -> UncountedTerminatedPods:
    """Return the pods whose counting is under way."""
    return job.status.uncounted_terminated_pods or UncountedTerminatedPods()


def tally(job: Job, pods: Iterable[Pod], now: float) -> Tally:
    """Count ``pods``, all that the job controls, at ``now`` (epoch seconds)."""
    pods = tuple(pods)
    # Pods in this list are counted there. They count once, whether or not their finalizer is gone already.
    known = uncounted(job)
    countable = [pod for pod in pods if has_valid_index(job, pod)]
    succeeded = [pod for pod in countable if pod.status.phase == "Succeeded" and _is_new(pod, known.succeeded)]
    failed = [pod for pod in countable if has_failed(pod, job) and _is_new(pod, known.failed)]
    matches = (judge(job, pod) for pod in pods if has_failed(pod, job))
    active = tuple(pod for pod in pods if is_active(pod))
    # An index that has succeeded once stays so, whatever fails afterwards.
    completed = _completed_indexes(job, pods)
    lost = _failed_set(job, pods) - completed
    return Tally(
        active=active,
        ready=sum(map(is_ready, active)),
        terminating=sum(pod.metadata.deletion_timestamp is not None and not is_terminal(pod) for pod in pods),
        succeeded=len(completed) if is_indexed(job) else job.status.succeeded + len(known.succeeded) + len(succeeded),
        failed=job.status.failed + len(known.failed) + sum(judge(job, pod).action != "Ignore" for pod in failed),
        newly_succeeded=tuple(succeeded),
        newly_failed=tuple(failed),
        policy_match=next((match for match in matches if match.action == "FailJob"), None),
        completed_indexes=completed,
        failed_indexes=lost,
        awaiting_replacement=_awaiting_replacement(job, pods, active, completed | lost, now),
    )


def _is_new(pod: Pod, known: Iterable[str]) -> bool:
    return is_tracked(pod) and pod.metadata.uid not in known


def _completed_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    if not is_indexed(job):
        return frozenset()
    completions = job.spec.completions or 0
    fresh = (completion_index(pod) for pod in pods if is_tracked(pod) and pod.status.phase == "Succeeded")
    known = parse_indexes(job.status.completed_indexes, completions)
    return known | {index for index in fresh if index is not None and index < completions}


def _failed_set(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    completions = job.spec.completions or 0
    known = parse_indexes(job.status.failed_indexes or "", completions)
    if job.spec.backoff_limit_per_index is None:
        return known
    lost = {completion_index(pod) for pod in pods if is_tracked(pod) and _loses_index(job, pod)}
    return known | {index for index in lost if index is not None and index < completions}


def _loses_index(job: Job, pod: Pod) -> bool:
    if not has_failed(pod, job):
        return False
    action = judge(job, pod).action
    if action == "FailIndex":
        return True
    return action != "Ignore" and failure_count(pod) >= (job.spec.backoff_limit_per_index or 0)


def _awaiting_replacement(
    job: Job, pods: Iterable[Pod], active: Iterable[Pod], over: frozenset[int], now: float
) -> dict[int, Pod]:
    if job.spec.backoff_limit_per_index is None or not is_indexed(job):
        return {}
    # An index with an active pod has its replacement already, which carries the counts on.
    taken = over | {completion_index(pod) for pod in active}
    last: dict[int, Pod] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index in taken or not has_valid_index(job, pod):
            continue
        if not is_tracked(pod) or not has_failed(pod, job):
            continue
        before = last.get(index)
        if before is None or _failed_later(pod, before, now):
            last[index] = pod
    return last


def _failed_later(pod: Pod, other: Pod, now: float) -> bool:
    return all_failures(pod) >= all_failures(other) and finish_time(pod, now) >= finish_time(other, now)


class CountingRound(msgspec.Struct, frozen=True):
    """A round of counting: the status in which pods are written down, and those that lose their finalizer then."""

    status: JobStatus
    released: tuple[Pod, ...]
    is_last: bool
    """True if no finished pod is left for the next round."""


def entered(job: Job, pods: Sequence[Pod], counted: Tally, *, is_over: bool, rest_fails: bool) -> CountingRound:
    """Write down the pods that need not be tracked any longer.

    ``is_over``: the outcome is decided, so no pod need be tracked. ``rest_fails``: pods that have not ended count as
    failed then, because the job fails.
    """
    # First settle what an earlier round recorded: its pods may have lost their finalizers since.
    tracked = frozenset(pod.metadata.uid for pod in pods if is_tracked(pod))
    status = settled(job.status, tracked)
    known = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed = list(known.succeeded), list(known.failed)
    released: list[Pod] = []
    fresh_indexes = 0
    for pod in pods:
        over = is_over or job.metadata.deletion_timestamp is not None or pod.status.phase == "Succeeded"
        if not is_tracked(pod) or not (over or _is_replaceable(job, pod, counted)):
            continue
        released.append(pod)
        uid = pod.metadata.uid
        if pod.status.phase == "Succeeded" and uid not in failed:
            # Indexes are a set, so a succeeded index cannot be counted twice: only other pods need their uid kept.
            if is_indexed(job):
                fresh_indexes += has_valid_index(job, pod)
            elif uid not in succeeded:
                succeeded.append(uid)
        elif (rest_fails or has_failed(pod, job)) and uid not in failed and _counts_as_failed(job, pod):
            failed.append(uid)
        # The rest waits for the next round: the status would exceed the size of an object.
        if fresh_indexes + len(succeeded) + len(failed) >= MOST_PER_SYNC:
            break
    status = replace(
        status,
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed)),
    )
    is_last = fresh_indexes + len(succeeded) + len(failed) < MOST_PER_SYNC
    return CountingRound(_with_indexes(job, status, counted), tuple(released), is_last)


def _is_replaceable(job: Job, pod: Pod, counted: Tally) -> bool:
    waiting = counted.awaiting_replacement.get(completion_index(pod) or 0)
    # A pod whose failures its replacement has yet to take over must not disappear.
    return has_failed(pod, job) and (waiting is None or waiting.metadata.uid != pod.metadata.uid)


def _counts_as_failed(job: Job, pod: Pod) -> bool:
    return has_valid_index(job, pod) and judge(job, pod).action != "Ignore"


def _with_indexes(job: Job, status: JobStatus, counted: Tally) -> JobStatus:
    if not is_indexed(job):
        return status
    completed = counted.completed_indexes
    status = replace(status, completed_indexes=format_indexes(completed), succeeded=len(completed))
    if job.spec.backoff_limit_per_index is not None:
        status = replace(status, failed_indexes=format_indexes(counted.failed_indexes))
    return status


def settled(status: JobStatus, tracked: frozenset[str]) -> JobStatus:
    """Return the status with those pods counted that have lost their finalizer; ``tracked``: uids of those that have
    it."""
    known = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in known.succeeded if uid in tracked)
    failed = tuple(uid for uid in known.failed if uid in tracked)
    return replace(
        status,
        succeeded=status.succeeded + len(known.succeeded) - len(succeeded),
        failed=status.failed + len(known.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def parse_indexes(text: str, completions: int) -> frozenset[int]:
    """Return the indexes that ``text`` names, as far as they are below ``completions``; malformed parts are left
    out."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            found.update(range(int(first), min(int(last if dash else first) + 1, completions)))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    """Return the short form: three and more neighbours become a range, as do two (``1,2`` stays two numbers)."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(set(indexes)), None]:
        if index is not None and run and index == run[-1] + 1:
            run.append(index)
            continue
        if run:
            parts.append(_run(run))
        run = [index] if index is not None else []
    return ",".join(parts)


def _run(run: list[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    separator = "," if len(run) == 2 else "-"
    return f"{run[0]}{separator}{run[-1]}"
