"""Counts of a job's pods, each finished pod exactly once; and sets of completion indexes in short form, as ``0,2-4``.

A finished pod is first recorded by UID in ``status.uncountedTerminatedPods``, then its finalizer is removed, and only
then a counter is incremented. A crash at any point therefore neither loses a pod nor counts it twice
(docs/spec/controllers.md §7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cathedra.api.core.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
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
from cathedra.semantics.pods import is_active, is_ready, is_terminal

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
    """The pods whose counting is under way."""
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
    lost = _failed_indexes(job, pods) - completed
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


def _failed_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
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
    """The status with those pods counted that have lost their finalizer; ``tracked``: uids of those that have it."""
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
    """The indexes that ``text`` names, as far as they are below ``completions``; what is malformed is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            found.update(range(int(first), min(int(last if dash else first) + 1, completions)))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    """The short form: three and more neighbours become a range, as do two (``1,2`` stays two numbers)."""
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
