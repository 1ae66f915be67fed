"""CronJobs: jobs by the clock (docs/spec/controllers.md §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core import batch_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.batch.jobs.validation import validate_job_spec
from cathedra.kinds.batch.schedule import ScheduleError, parse_schedule
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_job_template
from cathedra.kinds.core.pods.templates import CONTAINERS, IMAGES, SELECTOR, container_cells, selector_text
from cathedra.kinds.core.pods.warnings import name_warnings, template_warnings
from cathedra.kinds.declarative.tags import FieldTags, TypeTags
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

_SPEC = FieldPath("spec")
MAX_CRON_NAME: Final = 52
"""A job's name adds eleven characters to its cron job's, and a pod's label holds 63."""
_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")
CRONJOB_TAGS: Final = TypeTags({"spec": FieldTags(of=TypeTags({"schedule": FieldTags(required=True)}))})
CRONJOB_COLUMNS: Final = (
    NAME,
    Column("Schedule", description="When jobs are made, in cron's form."),
    Column("Timezone", description="The time zone of the schedule."),
    Column("Suspend", type="boolean", description="Whether no jobs are made."),
    Column("Active", type="integer", description="Jobs that run now."),
    Column("Last Schedule", description="How long ago the last job was made."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def default_cronjob(job: batch_v1.CronJob) -> batch_v1.CronJob:
    """A cron job with its history limits."""
    spec = job.spec
    template = replace(spec.job_template, spec=_without_counts(spec.job_template.spec))
    changes = absent(
        spec,
        concurrency_policy="Allow",
        suspend=False,
        successful_jobs_history_limit=3,
        failed_jobs_history_limit=1,
    )
    return replace(job, spec=replace(spec, job_template=template, **changes))


def _without_counts(spec: batch_v1.JobSpec) -> batch_v1.JobSpec:
    """The job of a CronJob gets its own defaults only when it is made."""
    return replace(spec, template=default_pod_template(spec.template))


def validate_cronjob(job: batch_v1.CronJob) -> ErrorList:
    """Return the errors of a cron job: its schedule, its limits, the jobs it would make."""
    errors = ErrorList()
    if len(job.metadata.name) > MAX_CRON_NAME:
        path = FieldPath("metadata").child("name")
        errors.invalid(path, job.metadata.name, f"must be no more than {MAX_CRON_NAME} characters")
    spec = job.spec
    _schedule(errors, spec.schedule)
    if spec.starting_deadline_seconds is not None and spec.starting_deadline_seconds < 0:
        path = _SPEC.child("startingDeadlineSeconds")
        errors.invalid(path, spec.starting_deadline_seconds, "must be greater than or equal to 0")
    if spec.time_zone is not None and not _is_zone(spec.time_zone):
        errors.invalid(_SPEC.child("timeZone"), spec.time_zone, f"unknown time zone {spec.time_zone}")
    if not spec.concurrency_policy:
        errors.required(_SPEC.child("concurrencyPolicy"))
    elif spec.concurrency_policy not in _CONCURRENCY:
        errors.not_supported(_SPEC.child("concurrencyPolicy"), spec.concurrency_policy, _CONCURRENCY)
    template = _SPEC.child("jobTemplate", "spec")
    validate_job_spec(errors, template, spec.job_template.spec)
    if spec.job_template.spec.selector is not None:
        errors.invalid(template.child("selector"), spec.job_template.spec.selector, "`selector` will be auto-generated")
    if spec.job_template.spec.manual_selector:
        errors.not_among(template.child("manualSelector"), True, ("nil", "false"))
    for name, value in (
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        if value is not None and value < 0:
            errors.invalid(_SPEC.child(name), value, "must be greater than or equal to 0")
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
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        # The parser of schedules takes a zone in front.
        schedule = schedule.partition(" ")[2].strip()
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        errors.invalid(path, schedule, str(error))


def _is_zone(name: str) -> bool:
    if not name or name.lower() == "local":
        return False
    # Time zones are read with the first cron job that names one: the module takes 2 ms of a server's start.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def cronjob_cells(job: batch_v1.CronJob, now: float) -> list[Any]:
    """Cells of a CronJob."""
    last = job.status.last_schedule_time
    return [
        job.metadata.name,
        job.spec.schedule,
        job.spec.time_zone or "<none>",
        str(bool(job.spec.suspend)),
        len(job.status.active),
        age(last, now) if last else "<none>",
        age(job.metadata.creation_timestamp, now),
        *container_cells(job.spec.job_template.spec.template),
        selector_text(job.spec.job_template.spec.selector),
    ]


def cron_job_definition() -> ResourceDefinition[batch_v1.CronJob]:
    """The definition of cronjobs."""
    return BuiltinKind(
        batch_v1.CronJob,
        "cronjobs",
        namespaced=True,
        drop_disabled=enabled_job_template,
        default=default_cronjob,
        rules=ObjectRules(validate_cronjob, validate_cronjob_update, _warnings, CRONJOB_TAGS),
        counts_generation=True,
        table=(CRONJOB_COLUMNS, cronjob_cells),
        short_names=("cj",),
        categories=("all",),
    ).definition()


def _warnings(new: batch_v1.CronJob, old: batch_v1.CronJob | None) -> Iterator[str]:
    if old is None:
        yield from name_warnings(new)
    if old is None or new.metadata.generation != old.metadata.generation:
        path = FieldPath("spec").child("jobTemplate", "spec", "template")
        yield from template_warnings(path, new.spec.job_template.spec.template)
