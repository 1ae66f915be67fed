"""Rows of pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kinds.objects import pod, row


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            "ContainerCreating",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}],
            },
            "Error",
        ),
        (
            {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}]},
            "Running",
        ),
    ],
)
def test_a_pod_says_what_holds_it_up(status: dict[str, Any], shown: str) -> None:
    assert row("pods", pod(status=status))["Status"] == shown


def test_ready_containers_are_counted() -> None:
    running = {"name": "c", "ready": True, "state": {"running": {}}}
    assert row("pods", pod(status={"phase": "Running", "containerStatuses": [running]}))["Ready"] == "1/1"
