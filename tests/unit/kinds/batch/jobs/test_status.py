"""Rules of the status of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.batch_v1 import Job
from cathedra.api.struct import from_dict
from cathedra.kinds.batch.jobs.status import validate_job_status

START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def true(*conditions: str) -> list[dict[str, str]]:
    return [{"type": condition, "status": "True"} for condition in conditions]


COMPLETE = {"startTime": START, "completionTime": END, "conditions": true("SuccessCriteriaMet", "Complete")}
FAILED = {"startTime": START, "conditions": true("FailureTarget", "Failed")}


def wrong(new: dict[str, Any], old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    before, after = (
        from_dict(Job, {"spec": {"completions": 3, "parallelism": 3, **spec}, "status": status})
        for status in (old or {}, new)
    )
    return [str(error) for error in validate_job_status(after, before)]


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (COMPLETE, []),
        (FAILED, []),
        ({"startTime": START, "conditions": true("SuccessCriteriaMet")}, []),
        ({"active": -1}, ["status.active: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"startTime": START, "conditions": true("SuccessCriteriaMet", "Complete")},
            ["status.completionTime: Required value: completionTime is required for Complete jobs"],
        ),
        (
            {"startTime": START, "completionTime": END},
            [
                f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no '
                "Complete=True condition"
            ],
        ),
        (
            COMPLETE | {"conditions": true("Complete")},
            [
                "status.conditions: Invalid value: cannot set Complete=True condition without the "
                "SuccessCriteriaMet=true condition"
            ],
        ),
        (
            {"startTime": START, "conditions": true("Failed")},
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the "
                "FailureTarget=true condition"
            ],
        ),
        (
            {"conditions": true("SuccessCriteriaMet", "FailureTarget")},
            ["status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"],
        ),
        (FAILED | {"active": 1}, ["status.active: Invalid value: 1: active>0 is invalid for finished job"]),
        (
            FAILED | {"terminating": 1},
            ["status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"],
        ),
        (FAILED | {"startTime": None}, ["status.startTime: Required value: startTime is required for finished job"]),
        ({"ready": 1}, ["status.ready: Invalid value: 1: cannot set more ready pods than active"]),
        (
            {"uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["u"]}},
            ['status.uncountedTerminatedPods.failed[0]: Duplicate value: "u"'],
        ),
    ],
)
def test_a_status_agrees_with_itself(status: dict[str, Any], wanted: list[str]) -> None:
    assert wrong(status) == wanted


@pytest.mark.parametrize(
    ("status", "spec", "wanted"),
    [
        ({"completedIndexes": "0,2"}, {"completionMode": "Indexed"}, []),
        (
            {"completedIndexes": "0,3"},
            {"completionMode": "Indexed"},
            ['status.completedIndexes: Invalid value: "0,3": error parsing completedIndexes: too large index: "3"'],
        ),
        (
            {"completedIndexes": "0"},
            {},
            [
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
                "completion mode"
            ],
        ),
        (
            {"failedIndexes": "0"},
            {"completionMode": "Indexed"},
            [
                'status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex '
                "is null"
            ],
        ),
        (
            {"completedIndexes": "0-1", "failedIndexes": "1-2"},
            {"completionMode": "Indexed", "backoffLimitPerIndex": 1},
            ['status.failedIndexes: Invalid value: "1-2": failedIndexes and completedIndexes overlap at index: 1'],
        ),
    ],
)
def test_indexes_are_those_of_the_job(status: dict[str, Any], spec: dict[str, Any], wanted: list[str]) -> None:
    assert wrong(status, **spec) == wanted


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ({"failed": 2}, {"failed": 1}, ["status.failed: Invalid value: 1: cannot decrease the failed counter"]),
        (
            {"succeeded": 2},
            {"succeeded": 1},
            ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
        ),
        (
            FAILED,
            {"startTime": START},
            [f"cannot disable the terminal {name}=True" for name in ("Failed", "FailureTarget")],
        ),
        (COMPLETE, COMPLETE | {"completionTime": START}, ["completionTime cannot be mutated"]),
        ({"startTime": START}, {"startTime": END}, ["startTime cannot be removed for unsuspended job"]),
        ({"completedIndexes": "0"}, {"completedIndexes": "0", "failed": 1}, []),
    ],
)
def test_what_was_reached_stays(old: dict[str, Any], new: dict[str, Any], wanted: list[str]) -> None:
    found = wrong(new, old)
    assert len(found) == len(wanted)
    assert all(words in text for words, text in zip(wanted, found, strict=True))
