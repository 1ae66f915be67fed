"""Jobs as a table shows them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.batch_v1 import Job
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


def job(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Job:
    return from_dict(Job, {"metadata": {"name": "j", **metadata}, "spec": spec or {}, "status": status or {}})


def conditions(*true: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": "True"} for name in true]}


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (job(), "Running"),
        (job(status=conditions("Complete", "SuccessCriteriaMet")), "Complete"),
        (job(status=conditions("FailureTarget", "Failed")), "Failed"),
        (job(status=conditions("Suspended")), "Suspended"),
        (job(status=conditions("Suspended"), deletionTimestamp="2023-01-01T00:00:00Z"), "Terminating"),
        (job(status={"conditions": [{"type": "Complete", "status": "False"}]}), "Running"),
    ],
)
def test_the_status_is_the_strongest_true_condition(made: Job, wanted: str) -> None:
    assert row("jobs", made)["Status"] == wanted


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({"completions": 5}, "2/5"), ({"parallelism": 3}, "2/1 of 3"), ({"parallelism": 1}, "2/1"), ({}, "2/1")],
)
def test_completions_are_of_what_the_job_says(spec: dict[str, Any], wanted: str) -> None:
    assert row("jobs", job(spec, {"succeeded": 2}))["Completions"] == wanted


def test_the_duration_stands_still_when_the_job_is_complete() -> None:
    begun = {"startTime": "2023-11-14T22:12:20Z"}
    assert row("jobs", job())["Duration"] == ""
    assert row("jobs", job(status=begun))["Duration"] == "60s"
    assert row("jobs", job(status={**begun, "completionTime": "2023-11-14T22:12:27Z"}))["Duration"] == "7s"
