"""Counts a job's pods, each finished one exactly once.

A finished pod is first written down by uid in ``status.uncountedTerminatedPods``, then loses its finalizer, and only
then raises a counter; so a crash at any point neither forgets nor repeats it (docs/spec/controllers.md §7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cathedra.api.core.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
from cathedra.controllers.job.failurepolicy import PolicyMatch, judge
from cathedra.controllers.job.indexes import format_indexes, parse_indexes
from cathedra.controllers.job.pods import completion_index, failure_count, has_failed, is_indexed, is_tracked
from cathedra.semantics.pods import is_active, is_ready, is_terminal

__all__ = ["Tally", "noted", "settled", "tally", "uncounted"]

MOST_PER_SYNC = 500
"""So many finished pods are counted in one go, which bounds the size of the status."""


@dataclass(frozen=True, slots=True)
class Tally:
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
    ignored: tuple[Pod, ...]
    """Failed pods that the failure policy does not count."""
    policy_match: PolicyMatch | None
    """Why the failure policy ends the job, if it does."""
    completed_indexes: frozenset[int]
    failed_indexes: frozenset[int]


def uncounted(job: Job) -> UncountedTerminatedPods:
    """The pods whose counting is under way."""
    return job.status.uncounted_terminated_pods or UncountedTerminatedPods()


def tally(job: Job, pods: Iterable[Pod]) -> Tally:
    """Count ``pods``, all that the job controls."""
    pods = tuple(pods)
    known = uncounted(job)
    seen = {*known.succeeded, *known.failed}
    succeeded: list[Pod] = []
    failed: list[Pod] = []
    ignored: list[Pod] = []
    policy_match: PolicyMatch | None = None
    completions = job.spec.completions or 0
    completed = parse_indexes(job.status.completed_indexes, completions) if is_indexed(job) else frozenset()
    lost = parse_indexes(job.status.failed_indexes or "", completions)
    for pod in pods:
        if not is_tracked(pod) or pod.metadata.uid in seen:
            continue
        if pod.status.phase == "Succeeded":
            succeeded.append(pod)
        elif has_failed(pod, job):
            judgement = judge(job, pod)
            if judgement.action == "FailJob" and policy_match is None:
                policy_match = judgement
            if judgement.action == "Ignore":
                ignored.append(pod)
                continue
            failed.append(pod)
            lost |= _lost_index(job, pod, judgement)
    if is_indexed(job):
        fresh = {i for i in map(completion_index, succeeded) if i is not None and i < completions}
        completed |= fresh
        succeeded_count = len(completed)
    else:
        succeeded_count = job.status.succeeded + len(known.succeeded) + len(succeeded)
    active = tuple(pod for pod in pods if is_active(pod))
    return Tally(
        active=active,
        ready=sum(map(is_ready, active)),
        terminating=sum(pod.metadata.deletion_timestamp is not None and not is_terminal(pod) for pod in pods),
        succeeded=succeeded_count,
        failed=job.status.failed + len(known.failed) + len(failed),
        newly_succeeded=tuple(succeeded[:MOST_PER_SYNC]),
        newly_failed=tuple(failed[:MOST_PER_SYNC]),
        ignored=tuple(ignored[:MOST_PER_SYNC]),
        policy_match=policy_match,
        completed_indexes=completed,
        failed_indexes=lost - completed,
    )


def _lost_index(job: Job, pod: Pod, judgement: PolicyMatch) -> frozenset[int]:
    limit = job.spec.backoff_limit_per_index
    index = completion_index(pod)
    if limit is None or index is None:
        return frozenset()
    if judgement.action == "FailIndex" or failure_count(pod) >= limit:
        return frozenset({index})
    return frozenset()


def noted(job: Job, counted: Tally) -> JobStatus:
    """The status in which the newly finished pods are written down and nothing is counted yet."""
    known = uncounted(job)
    # Indexes are a set, so a succeeded index cannot be counted twice: only failures need their uid kept.
    succeeded = known.succeeded
    if not is_indexed(job):
        succeeded = (*succeeded, *(pod.metadata.uid for pod in counted.newly_succeeded))
    failed = (*known.failed, *(pod.metadata.uid for pod in counted.newly_failed))
    status = replace(job.status, uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed))
    if not is_indexed(job):
        return status
    status = replace(
        status, completed_indexes=format_indexes(counted.completed_indexes), succeeded=len(counted.completed_indexes)
    )
    if job.spec.backoff_limit_per_index is not None:
        status = replace(status, failed_indexes=format_indexes(counted.failed_indexes))
    return status


def settled(status: JobStatus, released: frozenset[str]) -> JobStatus:
    """The status with those pods counted whose finalizer is gone (``released``: their uids)."""
    known = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = sum(uid in released for uid in known.succeeded)
    failed = sum(uid in released for uid in known.failed)
    return replace(
        status,
        succeeded=status.succeeded + succeeded,
        failed=status.failed + failed,
        uncounted_terminated_pods=UncountedTerminatedPods(
            succeeded=tuple(uid for uid in known.succeeded if uid not in released),
            failed=tuple(uid for uid in known.failed if uid not in released),
        ),
    )
