"""Cron jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cathedra.api.core import batch_v1
from cathedra.api.struct import from_dict
from cathedra.kinds.batch.cronjobs import ScheduleError, parse_schedule
from tests.unit.kinds.objects import context, definition_of, problems_of

JOB = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}


def cronjob(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "c"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, []),
        ({"schedule": ""}, ["spec.schedule: Required value"]),
        ({"schedule": "x"}, ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]']),
        ({"schedule": "@often"}, ['spec.schedule: Invalid value: "@often": unrecognized descriptor: @often']),
        (
            {"concurrencyPolicy": "Maybe"},
            ['spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"'],
        ),
        (
            {"schedule": "CRON_TZ=UTC * * * * *"},
            [
                'spec.schedule: Invalid value: "CRON_TZ=UTC * * * * *": '
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            ],
        ),
        (
            {"jobTemplate": {"spec": {**JOB, "manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}}},
            [
                'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: '
                "`selector` will be auto-generated",
                'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
            ],
        ),
        ({"timeZone": "Moon"}, ['spec.timeZone: Invalid value: "Moon": unknown time zone Moon']),
        (
            {"failedJobsHistoryLimit": -1},
            ["spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ],
)
def test_a_cron_job_is_checked(spec: dict[str, Any], wanted: list[str]) -> None:
    assert problems_of("cronjobs", batch_v1.CronJob, cronjob(**spec)) == wanted


def test_a_new_cron_job_whose_name_no_host_could_have_is_warned_of() -> None:
    job = from_dict(batch_v1.CronJob, cronjob() | {"metadata": {"name": "a.b"}})
    strategy = definition_of("cronjobs").strategy
    (text,) = strategy.warnings(job, None, context())
    assert text.startswith("metadata.name: this is used in Pod names and hostnames, ")
    assert strategy.warnings(job, job, context()) == ()


# Schedules of cron jobs, as the parser that Kubernetes uses reads them.

THURSDAY = datetime(2026, 1, 15, 10, 7, 30, tzinfo=UTC)


def following(text: str) -> str | None:
    moment = parse_schedule(text).after(THURSDAY.timestamp())
    return None if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("* * * * *", "01-15 10:08:00"),
        ("?/5 ? * * *", "01-15 10:10:00"),
        ("5/15 * * * *", "01-15 10:20:00"),
        ("1,,8 * * * *", "01-15 10:08:00"),
        ("+8 * * * *", "01-15 10:08:00"),
        ("@every 1h30m", "01-15 11:37:30"),
        ("0 0 * * mon-fri", "01-16 00:00:00"),
        ("0 0 31 2 *", None),
        ("0 0 , * *", None),
    ],
)
def test_the_next_time_is_found(text: str, wanted: str | None) -> None:
    assert following(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0 0 20 * 6", "01-17 00:00:00"),
        ("0 0 20 * *", "01-20 00:00:00"),
        ("0 0 */1 * 1", "01-19 00:00:00"),
        ("0 0 */2 * 1", "01-17 00:00:00"),
        ("0 0 20 * */6", "01-17 00:00:00"),
        ("0 0 1,* * 1", "01-19 00:00:00"),
    ],
)
def test_either_day_is_enough_if_both_are_restricted_and_a_step_restricts(text: str, wanted: str) -> None:
    assert following(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty spec string"),
        ("0 0 * *", "expected exactly 5 fields, found 4: [0 0 * *]"),
        ("0 0 * * 7", "end of range (7) above maximum (6): 7"),
        ("0 0 * * fri-mon", "beginning of range (5) beyond end of range (1): fri-mon"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("0 0 L * *", 'failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        (f"{2**63} * * * *", f'failed to parse int from {2**63}: strconv.Atoi: parsing "{2**63}": value out of range'),
        ("9" * 5000 + " * * * *", "value out of range"),
        ("@reboot", "unrecognized descriptor: @reboot"),
        ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
        ("@every 1x", 'failed to parse duration @every 1x: time: invalid duration "1x"'),
        ("@every .s", 'time: invalid duration ".s"'),
        ("@every 2562048h", 'time: invalid duration "2562048h"'),
        (f"@every {'9' * 5000}h", 'h"'),
    ],
)
def test_what_kubernetes_refuses_is_refused_in_its_words(text: str, why: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_schedule(text)
    assert str(refused.value).endswith(why)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h30m", 5400), ("1.5m", 90), ("+.5h", 1800), ("1s999ms", 1), ("10us", 1), ("-3h", 1), ("0", 1)],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: int) -> None:
    assert parse_schedule(f"@every {text}").after(1_700_000_000.0) == 1_700_000_000.0 + seconds


def test_nothing_happens_after_the_last_year_that_objects_can_name() -> None:
    assert parse_schedule("@every 2562047h").after(253_402_300_000.0) is None
