"""Rules of jobs and cron jobs (spec: controllers.md, section 7)."""

from __future__ import annotations

from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cathedra.api.core import batch_v1
from cathedra.api.cronschedule import ScheduleError, parse_schedule
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import replace
from cathedra.api.validation.pods import validate_pod_template

__all__ = ["validate_cronjob", "validate_cronjob_update", "validate_job", "validate_job_update"]

MAX_CRON_NAME: Final = 52
"""A job's name adds eleven characters to its cron job's, and a pod's label holds 63."""

_SPEC = FieldPath("spec")
_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")


def validate_job(job: batch_v1.Job, gates: FeatureGates) -> ErrorList:
    """What is wrong with a new job."""
    errors = ErrorList()
    _job_spec(errors, _SPEC, job.spec)
    return errors


def _job_spec(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    for name, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
    ):
        if value is not None and value < 0:
            errors.invalid(path.child(name), value, "must be greater than or equal to 0")
    if spec.completion_mode not in (None, "", "NonIndexed", "Indexed"):
        errors.not_supported(path.child("completionMode"), spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.completion_mode == "Indexed" and spec.completions is None:
        errors.required(path.child("completions"), "when completion mode is Indexed")
    template = path.child("template")
    errors += validate_pod_template(spec.template, template)
    policy = template.child("spec", "restartPolicy")
    if spec.template.spec.restart_policy in ("", "Always"):
        errors.required(policy, 'valid values: "OnFailure", "Never"')
    elif spec.template.spec.restart_policy not in ("OnFailure", "Never"):
        errors.not_supported(policy, spec.template.spec.restart_policy, ("OnFailure", "Never"))


def validate_job_update(new: batch_v1.Job, old: batch_v1.Job, gates: FeatureGates) -> ErrorList:
    """What a job may not change: selector, template (unless suspended), completion mode and completions."""
    errors = validate_job(new, gates)
    indexed = new.spec.completion_mode == "Indexed"
    follows = new.spec.completions == new.spec.parallelism
    if new.spec.completions != old.spec.completions and not (indexed and follows):
        errors.invalid(_SPEC.child("completions"), new.spec.completions, "field is immutable")
    for name, attribute in (("selector", "selector"), ("completionMode", "completion_mode")):
        value = getattr(new.spec, attribute)
        if value != getattr(old.spec, attribute):
            errors.invalid(_SPEC.child(name), value, "field is immutable")
    before, after = old.spec.template, new.spec.template
    if old.spec.suspend and old.status.start_time is None:
        scheduling = {
            name: getattr(after.spec, name) for name in ("affinity", "node_selector", "tolerations", "scheduling_gates")
        }
        metadata = replace(before.metadata, labels=after.metadata.labels, annotations=after.metadata.annotations)
        before = replace(before, metadata=metadata, spec=replace(before.spec, **scheduling))
    if after != before:
        errors.invalid(_SPEC.child("template"), after, "field is immutable")
    return errors


def validate_cronjob(job: batch_v1.CronJob) -> ErrorList:
    """What is wrong with a cron job: its schedule, its limits, the jobs it would make."""
    errors = ErrorList()
    if len(job.metadata.name) > MAX_CRON_NAME:
        path = FieldPath("metadata").child("name")
        errors.invalid(path, job.metadata.name, f"must be no more than {MAX_CRON_NAME} characters")
    spec = job.spec
    _schedule(errors, spec.schedule)
    if spec.starting_deadline_seconds is not None and spec.starting_deadline_seconds < 0:
        path = _SPEC.child("startingDeadlineSeconds")
        errors.invalid(path, spec.starting_deadline_seconds, "must be greater than or equal to 0")
    if not spec.concurrency_policy:
        errors.required(_SPEC.child("concurrencyPolicy"))
    elif spec.concurrency_policy not in _CONCURRENCY:
        errors.not_supported(_SPEC.child("concurrencyPolicy"), spec.concurrency_policy, _CONCURRENCY)
    for name, value in (
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        if value is not None and value < 0:
            errors.invalid(_SPEC.child(name), value, "must be greater than or equal to 0")
    if spec.time_zone is not None and not _is_zone(spec.time_zone):
        errors.invalid(_SPEC.child("timeZone"), spec.time_zone, f"unknown time zone {spec.time_zone}")
    _job_spec(errors, _SPEC.child("jobTemplate", "spec"), spec.job_template.spec)
    return errors


def validate_cronjob_update(new: batch_v1.CronJob, old: batch_v1.CronJob) -> ErrorList:
    """Everything but the name may change."""
    return validate_cronjob(new)


def _schedule(errors: ErrorList, schedule: str) -> None:
    path = _SPEC.child("schedule")
    if not schedule:
        errors.required(path)
        return
    if "TZ" in schedule:
        errors.invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        errors.invalid(path, schedule, str(error))


def _is_zone(name: str) -> bool:
    if not name or name.lower() == "local":
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
