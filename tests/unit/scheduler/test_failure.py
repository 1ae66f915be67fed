"""Condition and event of a pod without a node, and when they are not written again (docs/spec/scheduling.md §16)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.scheduler.failure import FailureReport, shortened
from tests.unit.scheduler.objects import pod

NOW = 1_767_225_600.0
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}


@pytest.mark.parametrize(
    ("message", "shown"),
    [("x" * 1024, "x" * 1024), ("x" * 1025, "x" * 1020 + " ..."), ("ä" * 600, "ä" * 510 + " ...")],
)
def test_a_long_message_is_cut_in_bytes_and_never_inside_a_character(message: str, shown: str) -> None:
    assert shortened(message) == shown


def patch(condition: dict[str, Any] | None, report: FailureReport) -> dict[str, Any] | None:
    told = pod("p", status={"conditions": [condition] if condition else []})
    found = report.patch(told, NOW)
    return None if found is None else found["status"]


def test_a_condition_that_says_so_already_is_not_written() -> None:
    assert patch(CONDITION, FailureReport("Unschedulable", "no", None)) is None


def test_a_new_message_keeps_the_time_since_when_the_pod_waits() -> None:
    since = "2020-01-01T00:00:00Z"
    written = patch({**CONDITION, "lastTransitionTime": since}, FailureReport("Unschedulable", "never", None))
    assert written is not None
    [condition] = written["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == ("never", since)


def test_the_first_message_says_since_now() -> None:
    written = patch(None, FailureReport("SchedulerError", "oh", None))
    assert written is not None
    assert written["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_nomination_is_written_beside_an_unchanged_condition() -> None:
    assert patch(CONDITION, FailureReport("Unschedulable", "no", "n1")) == {"nominatedNodeName": "n1"}
