"""CronJobs: jobs by the clock (docs/spec/controllers.md §7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Protocol

import msgspec

from cathedra.api.core import batch_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.goquote import go_quote
from cathedra.api.struct import replace
from cathedra.kinds.batch.jobs.validation import validate_job_spec
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_job_template
from cathedra.kinds.core.pods.templates import CONTAINERS, IMAGES, SELECTOR, container_cells, selector_text
from cathedra.kinds.core.pods.warnings import name_warnings, template_warnings
from cathedra.kinds.declarative import FieldTags, TypeTags
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
    """Return the object with its defaults: a cron job with its history limits."""
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
    """Return the job spec with the defaults of its pods only; a job gets its own when it is made."""
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
    """Return the cells of a CronJob."""
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
    """Return the definition of cronjobs."""
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


# Schedules of cron jobs: the five fields of cron, and the short forms that begin with ``@``. Pure.
#
# The syntax is that of the library which Kubernetes uses (``github.com/robfig/cron/v3``, ``ParseStandard``): names of
# months and days, ranges, lists and steps; day of month and day of week both have to match unless both are restricted,
# then either will do. No Python library agrees with it: croniter and cronsim refuse ``?`` and ``@every`` and take ``7``
# for Sunday, ``L`` and ``#``, which Kubernetes refuses.

LONGEST_SEARCH: Final = timedelta(days=5 * 366)
"""A schedule without a time within about five years (as the 30th of February) has none."""
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS: Final = {n: i for i, n in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_SHORT_FORMS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC).timestamp()
"""Nothing happens after the year 9999, which is the last one that objects can name."""
_DIGITS: Final = 40
"""Longer numbers are out of range unread."""
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION: Final = re.compile(r"([0-9]{0,40})(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)


class ScheduleError(ValueError):
    """The schedule cannot be parsed."""


class Schedule(Protocol):
    """Points in time at which a CronJob runs."""

    def after(self, moment: float) -> float | None:
        """Return the first one after ``moment`` (epoch seconds); None if there is none."""


class _Every(msgspec.Struct, frozen=True):
    seconds: float

    def after(self, moment: float) -> float | None:
        following = float(int(moment + self.seconds))
        return following if following < _END_OF_TIME else None


class _Fields(msgspec.Struct, frozen=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """True if day of month or day of week is enough, because both are restricted."""
    zone: tzinfo

    def after(self, moment: float) -> float | None:
        # In absolute time, so that hours which a clock change leaves out or repeats are what they are.
        time = datetime.fromtimestamp(moment // 60 * 60 + 60, UTC)
        end = time + LONGEST_SEARCH
        while time < end:
            local = time.astimezone(self.zone)
            if local.month not in self.months or not self._day_matches(local):
                # Up to 23:00 of the day and not to midnight: a clock change may make the day an hour shorter, and a
                # longer step could skip its successor.
                time += timedelta(minutes=60 - local.minute, hours=max(0, 22 - local.hour))
            elif local.hour not in self.hours:
                time += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes:
                time += timedelta(minutes=1)
            else:
                return time.timestamp()
        return None

    def _day_matches(self, local: datetime) -> bool:
        of_month, of_week = local.day in self.days, (local.weekday() + 1) % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """Parse a schedule in the time zone ``zone``.

    Raises:
        ScheduleError: the text is malformed.
    """
    text = text.strip()
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith("@every "):
        return _Every(_duration(text.removeprefix("@every ").strip()))
    if text.startswith("@"):
        if text not in _SHORT_FORMS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _SHORT_FORMS[text]
    fields = text.split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = fields
    return _Fields(
        minutes=_field(minutes, 0, 59),
        hours=_field(hours, 0, 23),
        days=_field(days, 1, 31),
        months=_field(months, 1, 12, _MONTHS),
        weekdays=_field(weekdays, 0, 6, _DAYS),
        either_day=not _is_open(days) and not _is_open(weekdays),
        zone=zone,
    )


def most_recent(schedule: Schedule, earliest: float, now: float) -> tuple[float | None, int]:
    """Return the last point in time after ``earliest`` that is not after ``now``, and about how many there were."""
    first = schedule.after(earliest)
    if first is None or first > now:
        return None, 0
    second = schedule.after(first)
    if second is None or second > now:
        return first, 1
    # Estimated from the first step. A job that was suspended for years would otherwise make the controller count
    # millions of points in time.
    step = second - first
    missed = int((now - first) // step) + 1
    latest = first
    # Steps need not be equal; beginning one early finds the last one all the same.
    candidate = schedule.after(first + max(0, missed - 3) * step - 1)
    while candidate is not None and candidate <= now:
        latest = candidate
        candidate = schedule.after(candidate)
    return latest, missed


def _is_open(field: str) -> bool:
    """Return True if a part of the field is a plain star; a star with a step restricts the day as numbers do."""
    return any(_is_plain_star(part) for part in field.split(","))


def _is_plain_star(part: str) -> bool:
    span, slash, step = part.partition("/")
    return span.partition("-")[0] in ("*", "?") and (not slash or _number(step, {}) <= 1)


def _field(text: str, low: int, high: int, names: Mapping[str, int] = {}) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        found |= _range(part, low, high, names)
    return frozenset(found)


def _range(part: str, low: int, high: int, names: Mapping[str, int]) -> set[int]:
    span, slash, step_text = part.partition("/")
    first_text, dash, last_text = span.partition("-")
    if "/" in step_text:
        raise ScheduleError(f"too many slashes: {part}")
    if "-" in last_text:
        raise ScheduleError(f"too many hyphens: {part}")
    if first_text in ("*", "?"):
        first, last = low, high
    else:
        first = _number(first_text, names)
        last = _number(last_text, names) if dash else (high if slash else first)
    step = _number(step_text, {}) if slash else 1
    if step < 0:
        raise ScheduleError(f"negative number ({step}) not allowed: {step_text}")
    if first < low:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({low}): {part}")
    if last > high:
        raise ScheduleError(f"end of range ({last}) above maximum ({high}): {part}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    return set(range(first, last + 1, step))


def _number(text: str, names: Mapping[str, int]) -> int:
    known = names.get(text.lower())
    if known is not None:
        return known
    problem = "invalid syntax" if not re.fullmatch(r"[+-]?[0-9]+", text) else "value out of range"
    if problem == "invalid syntax" or len(text) > _DIGITS or abs(int(text)) >= 2**63:
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: {problem}")
    return int(text)


def _duration(text: str) -> float:
    """Seconds of a duration in Go's form; at least one, as the schedule's clock knows no less."""
    sign, unsigned = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    parts = list(_DURATION.finditer(unsigned))
    whole = sum(
        int(int(part[1] or "0") * _NANOSECONDS[part[3]] + _fraction(part[2] or "") * _NANOSECONDS[part[3]])
        for part in parts
    )
    complete = "".join(part[0] for part in parts) == unsigned and all(part[1] or part[2] for part in parts)
    if unsigned != "0" and (not parts or not complete or whole >= 2**63):
        raise ScheduleError(f"failed to parse duration @every {text}: time: invalid duration {go_quote(text)}")
    return 1.0 if sign == "-" else max(1.0, float(whole // 10**9))


def _fraction(digits: str) -> float:
    return float(f"0.{digits[:_DIGITS]}") if digits else 0.0
