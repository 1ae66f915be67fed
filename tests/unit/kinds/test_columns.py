"""Rows of tables: what kubectl prints."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1, resource_v1alpha3
from cathedra.api.struct import Time, from_dict
from cathedra.kinds.columns import age, human_duration
from tests.unit.kinds.objects import NOW, claim, definition_of, pod, resource_slice


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (61 * 8, "8m8s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (47 * 3600, "47h"),
        (3 * 86400, "3d"),
        (10 * 86400, "10d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
        (-1, "0s"),
        (-5, "<invalid>"),
    ],
)
def test_durations_are_short(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_what_has_no_date_has_no_age() -> None:
    assert age(None, NOW) == "<unknown>"
    assert age(Time(NOW - 5), NOW) == "5s"


def row(plural: str, obj: Any) -> dict[str, Any]:
    definition = definition_of(plural)
    assert definition.cells is not None
    return dict(zip((column.name for column in definition.columns), definition.cells(obj, NOW), strict=True))


def test_a_claim_says_whether_it_is_allocated_and_reserved() -> None:
    assert row("resourceclaims", claim())["State"] == "pending"
    allocation = {"devices": {"results": []}}
    assert row("resourceclaims", claim(status={"allocation": allocation}))["State"] == "allocated"
    reserved = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}
    assert row("resourceclaims", claim(status=reserved))["State"] == "allocated,reserved"


def test_a_slice_names_node_driver_and_pool() -> None:
    found = row("resourceslices", resource_slice())
    assert (found["Node"], found["Driver"], found["Pool"]) == ("n1", "gpu.example.com", "p")


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


def test_a_node_says_whether_it_is_ready_and_cordoned() -> None:
    values = {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert row("nodes", from_dict(core_v1.Node, values))["Status"] == "Ready,SchedulingDisabled"


def test_a_question_about_pools_counts_once_it_is_answered() -> None:
    kind = resource_v1alpha3.ResourcePoolStatusRequest
    asked = {"metadata": {"name": "x"}, "spec": {"driver": "d"}}
    assert row("resourcepoolstatusrequests", from_dict(kind, asked))["Total"] == "-"
    answered = {**asked, "status": {"poolCount": 1, "pools": [{"driver": "d", "poolName": "p", "totalDevices": 3}]}}
    found = row("resourcepoolstatusrequests", from_dict(kind, answered))
    assert (found["Total"], found["Pools"], found["Status"]) == ("3", 1, "Pending")
