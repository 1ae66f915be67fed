"""Cron jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import batch_v1
from cathedra.api.struct import from_dict
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
