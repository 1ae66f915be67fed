"""Rules of the status of jobs, which other controllers than Kubernetes' own may write (``spec.managedBy``).

Most rules concern a change: an object that was stored with another combination stays writable.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from cathedra.api.core import batch_v1
from cathedra.api.field import OMITTED, ErrorList, FieldPath
from cathedra.kinds.batch.jobs.validation import BadIndexes, count_indexes
from cathedra.semantics.conditions import is_true

_STATUS: Final = FieldPath("status")
_CONDITIONS: Final = _STATUS.child("conditions")
_COUNTERS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")


class _Change:
    """The status of a job before and after a write."""

    def __init__(self, new: batch_v1.Job, old: batch_v1.Job) -> None:
        self.job, self.new, self.old = new, new.status, old.status
        self.complete = self.has("Complete")
        self.failed = self.has("Failed")
        self.finished = self.complete or self.failed

    def has(self, condition: str) -> bool:
        """Return True if the condition is true after the write."""
        return is_true(self.new.conditions, condition)

    def had(self, condition: str) -> bool:
        """Return True if the condition was true before the write."""
        return is_true(self.old.conditions, condition)

    def turns(self, *conditions: str) -> bool:
        """Return True if one of the conditions changes."""
        return any(self.has(condition) is not self.had(condition) for condition in conditions)

    def sets(self, *fields: str) -> bool:
        """Return True if one of the fields changes."""
        return any(getattr(self.new, field) != getattr(self.old, field) for field in fields)

    @property
    def finishes(self) -> bool:
        """True if the job becomes finished, or becomes unfinished."""
        return self.finished is not (self.had("Complete") or self.had("Failed"))


def validate_job_status(new: batch_v1.Job, old: batch_v1.Job) -> ErrorList:
    """Return the errors of a changed status, in Kubernetes' order."""
    errors, change = ErrorList(), _Change(new, old)
    for name in _COUNTERS:
        value = getattr(change.new, name)
        if value is not None and value < 0:
            errors.invalid(_STATUS.child(name), value, "must be greater than or equal to 0")
    _uncounted(errors, change.new)
    _conditions(errors, change)
    _finished(errors, change)
    _indexes(errors, change)
    if change.finished and (change.finishes or change.sets("terminating")) and (change.new.terminating or 0) > 0:
        errors.invalid(
            _STATUS.child("terminating"), change.new.terminating, "terminating>0 is invalid for finished job"
        )
    ready = change.new.ready
    if change.sets("ready", "active") and ready is not None and ready > change.new.active:
        errors.invalid(_STATUS.child("ready"), ready, "cannot set more ready pods than active")
    _success(errors, change)
    _progress(errors, change)
    return errors


def _uncounted(errors: ErrorList, status: batch_v1.JobStatus) -> None:
    uncounted = status.uncounted_terminated_pods
    if uncounted is None:
        return
    seen: set[str] = set()
    for name, uids in (("succeeded", uncounted.succeeded), ("failed", uncounted.failed)):
        for position, uid in enumerate(uids):
            path = _STATUS.child("uncountedTerminatedPods", name).index(position)
            if not uid:
                errors.invalid(path, uid, "must not be empty")
            elif uid in seen:
                errors.duplicate(path, uid)
            seen.add(uid)


def _refuse(errors: ErrorList, words: str) -> None:
    errors.invalid(_CONDITIONS, OMITTED, words)


def _conditions(errors: ErrorList, change: _Change) -> None:
    """Check conditions that exclude or need each other, and the time of completion."""
    status, complete = change.new, change.complete
    if change.turns("Complete", "Failed") and complete and change.failed:
        _refuse(errors, "cannot set Complete=True and Failed=true conditions")
    if change.turns("Complete", "FailureTarget") and complete and change.has("FailureTarget"):
        _refuse(errors, "cannot set Complete=True and FailureTarget=true conditions")
    path, completed = _STATUS.child("completionTime"), status.completion_time
    if change.turns("Complete") or change.sets("completion_time"):
        if completed is not None and not complete:
            words = "cannot set completionTime when there is no Complete=True condition"
            errors.invalid(path, completed, words)
        if completed is None and complete:
            errors.required(path, "completionTime is required for Complete jobs")
    started = status.start_time
    if change.sets("start_time", "completion_time") and started and completed and completed < started:
        errors.invalid(path, completed, "completionTime cannot be set before startTime")
    if (change.turns("Failed") or change.sets("failed_indexes")) and change.failed and not change.has("FailureTarget"):
        _refuse(errors, "cannot set Failed=True condition without the FailureTarget=true condition")
    if change.turns("Complete", "SuccessCriteriaMet") and complete and not change.has("SuccessCriteriaMet"):
        _refuse(errors, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(errors: ErrorList, change: _Change) -> None:
    """Check that a finished job has started and has nothing left to do."""
    if not change.finished:
        return
    status, spec = change.new, change.job.spec
    if status.active > 0 and (change.finishes or change.sets("active")):
        errors.invalid(_STATUS.child("active"), status.active, "active>0 is invalid for finished job")
    # The controller finishes a suspended job of zero completions without ever starting it, so it has no start time.
    never_starts = bool(spec.suspend) and spec.completions == 0
    if status.start_time is None and not never_starts and (change.finishes or change.sets("start_time")):
        errors.required(_STATUS.child("startTime"), "startTime is required for finished job")
    uncounted = status.uncounted_terminated_pods
    left = uncounted is not None and bool(uncounted.failed or uncounted.succeeded)
    if left and (change.finishes or change.sets("uncounted_terminated_pods")):
        words = "uncountedTerminatedPods needs to be empty for finished job"
        errors.invalid(_STATUS.child("uncountedTerminatedPods"), uncounted, words)


def _indexes(errors: ErrorList, change: _Change) -> None:
    """Check the indexes that have succeeded and those that have failed."""
    spec, status = change.job.spec, change.new
    completions, failed = spec.completions, status.failed_indexes
    path, other = _STATUS.child("completedIndexes"), _STATUS.child("failedIndexes")
    new_completed, new_failed = change.sets("completed_indexes"), change.sets("failed_indexes")
    if new_completed and completions is not None:
        _format(errors, path, "completedIndexes", status.completed_indexes, completions)
    if new_failed and completions is not None and spec.backoff_limit_per_index is not None and failed is not None:
        _format(errors, other, "failedIndexes", failed, completions)
    if new_completed and status.completed_indexes and spec.completion_mode != "Indexed":
        words = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.invalid(path, status.completed_indexes, words)
    if new_failed and failed is not None and spec.backoff_limit_per_index is None:
        errors.invalid(other, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
    if (new_completed or new_failed) and completions is not None and failed is not None:
        both = _first_common(status.completed_indexes, failed)
        if both is not None:
            errors.invalid(other, failed, f"failedIndexes and completedIndexes overlap at index: {both}")


def _format(errors: ErrorList, path: FieldPath, name: str, text: str, completions: int) -> None:
    try:
        count_indexes(text, completions)
    except BadIndexes as error:
        errors.invalid(path, text, f"error parsing {name}: {error}")


def _first_common(completed: str, failed: str) -> int | None:
    """Return the first index in both lists; None if there is none. What cannot be read is passed over."""
    common = [
        max(one[0], other[0])
        for one in _intervals(completed)
        for other in _intervals(failed)
        if one[0] <= other[1] and other[0] <= one[1]
    ]
    return min(common, default=None)


def _intervals(text: str) -> Collection[tuple[int, int]]:
    found = []
    # The format is validated elsewhere, and both lists are user input of unbounded length. Without these bounds one
    # status update could hold the server's loop for seconds: every pair of intervals is compared.
    for part in text.split(",")[:_MOST_INTERVALS]:
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(part) <= _LONGEST_INTERVAL:
            found.append((int(first), int(last or first)))
    return found


_MOST_INTERVALS: Final = 1_000
"""Intervals that are compared with each other. Controllers write a few; each pair is a comparison."""
_LONGEST_INTERVAL: Final = 32


def _success(errors: ErrorList, change: _Change) -> None:
    met = change.has("SuccessCriteriaMet")
    if met and change.failed:
        _refuse(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and change.has("FailureTarget"):
        _refuse(errors, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if change.job.spec.success_policy is not None and not met and change.complete:
        _refuse(errors, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _progress(errors: ErrorList, change: _Change) -> None:
    """Check that nothing that was reached is taken back."""
    new, old, spec = change.new, change.old, change.job.spec
    for condition in _TERMINAL:
        if change.had(condition) and not change.has(condition):
            _refuse(errors, f"cannot disable the terminal {condition}=True condition")
    if new.failed < old.failed:
        errors.invalid(_STATUS.child("failed"), new.failed, "cannot decrease the failed counter")
    # An indexed job with as many pods as completions may be scaled down, and then counts fewer successes.
    elastic = spec.completion_mode == "Indexed" and spec.completions == spec.parallelism
    if new.succeeded < old.succeeded and not elastic:
        errors.invalid(_STATUS.child("succeeded"), new.succeeded, "cannot decrease the succeeded counter")
    if _differ(new.completion_time, old.completion_time) and new.completion_time is not None:
        errors.invalid(_STATUS.child("completionTime"), new.completion_time, "completionTime cannot be mutated")
    # Suspending a job resets its start time, so that activeDeadlineSeconds counts from the time when it resumes.
    if _differ(new.start_time, old.start_time) and not spec.suspend:
        errors.required(_STATUS.child("startTime"), "startTime cannot be removed for unsuspended job")
    met, was_met = change.has("SuccessCriteriaMet"), change.had("SuccessCriteriaMet")
    if was_met and not met:
        _refuse(errors, "cannot disable the SuccessCriteriaMet=True condition")
    if change.had("Complete") and not was_met and met:
        _refuse(errors, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _differ(new: Any, old: Any) -> bool:
    """Return True if a time that was set is another one now."""
    return old is not None and new != old
