"""Questions about pools as a table shows them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row

COUNTS = ("Total", "Available", "Allocated", "Unavailable", "Errors")


def shown(status: dict[str, Any] | None) -> dict[str, Any]:
    values: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"driver": "d"}}
    if status is not None:
        values["status"] = status
    return row("resourcepoolstatusrequests", from_dict(ResourcePoolStatusRequest, values))


def condition(type_: str, status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": "2023-11-14T22:12:20Z"}


def test_until_there_is_an_answer_there_are_dashes() -> None:
    found = shown(None)
    assert [found[name] for name in COUNTS] == ["-"] * 5
    assert (found["Pools"], found["Status"], found["Completed"]) == (0, "Pending", "<none>")


def test_the_devices_of_all_pools_are_added_up() -> None:
    pool = {"totalDevices": 6, "availableDevices": 3, "allocatedDevices": 2, "unavailableDevices": 1}
    found = shown({"poolCount": 3, "pools": [pool, pool, {"validationError": "bad"}]})
    assert [found[name] for name in COUNTS] == ["12", "6", "4", "2", "1"]


@pytest.mark.parametrize(
    ("conditions", "count", "status"),
    [
        ([], 1, "Pending"),
        ([condition("Complete", "False")], 1, "Pending"),
        ([condition("Complete")], 1, "Complete"),
        ([condition("Complete")], 7, "Complete (1/7 pools)"),
        ([condition("Failed")], 7, "Failed"),
        ([condition("Other")], 1, "Pending"),
    ],
)
def test_an_answer_is_complete_or_failed_and_may_leave_pools_out(
    conditions: list[dict[str, str]], count: int, status: str
) -> None:
    found = shown({"poolCount": count, "pools": [{}], "conditions": conditions})
    assert (found["Status"], found["Pools"]) == (status, count)
    assert found["Completed"] == ("<none>" if status == "Pending" else "60s")
