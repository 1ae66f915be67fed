"""Use of devices: now, over a time, and beside the quotas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.insight.inventory.history import HistoryWriter, read_history
from cathedra.insight.inventory.holdings import ClaimHolding
from cathedra.insight.inventory.usage import UsagePeriod, UsageReport, usage, usage_csv, usage_text
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from tests.unit.insight.moving.clusters import CLASS, node, pod

QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "default"},
    "spec": {"hard": {"gpu.deviceclass.resource.k8s.io/devices": "4", "cpu": "3"}},
    "status": {
        "hard": {"gpu.deviceclass.resource.k8s.io/devices": "4", "cpu": "3"},
        "used": {"gpu.deviceclass.resource.k8s.io/devices": "3", "cpu": "1"},
    },
}


def in_namespace(name: str, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "metadata": {**one["metadata"], "namespace": name}} for one in parts]


@pytest.fixture(scope="module")
def state() -> ClusterState:
    parts = [node("a", 4), pod("one", 2, "a", ["gpu-0", "gpu-1"]), pod("two", 1, "a", ["gpu-2"])]
    parts += [in_namespace("team", pod("three", 1, "a", ["gpu-3"])), pod("waits", 1)]
    return read_dump([CLASS, QUOTA, *(one for part in parts for one in part)])


def rows(found: UsageReport) -> list[tuple[str, int, int]]:
    return [(one.name, one.claims, one.devices) for one in found.rows]


def test_use_is_summed_by_namespace_with_the_largest_first(state: ClusterState) -> None:
    assert rows(usage(state)) == [("default", 2, 3), ("team", 1, 1)]


def test_one_namespace_can_be_chosen(state: ClusterState) -> None:
    assert rows(usage(state, namespace="team", by="class")) == [("gpu", 1, 1)]


def test_only_limits_on_devices_and_claims_are_shown(state: ClusterState) -> None:
    (quota,) = usage(state).quotas
    assert (quota.resource, quota.used, quota.hard) == ("gpu.deviceclass.resource.k8s.io/devices", "3", "4")
    assert usage(state, namespace="team").quotas == ()


def test_what_by_does_not_know_is_refused(state: ClusterState) -> None:
    with pytest.raises(InvalidInput, match="--by 'colour' is none of namespace, class, driver, node"):
        usage(state, by="colour")


def test_csv_has_a_head_and_a_row_for_each_name(state: ClusterState) -> None:
    assert usage_csv(usage(state)).splitlines() == [
        "namespace,claims,devices,deviceHours",
        "default,2,3,",
        "team,1,1,",
    ]


class Now:
    """A clock that is set by hand."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


def holding(name: str, since: float, devices: int = 2) -> ClaimHolding:
    return ClaimHolding(name, "team", name, "gpu", "gpu.example.com", "a", devices, since)


def test_device_hours_count_the_part_of_a_holding_that_lies_in_the_time(tmp_path: Path, state: ClusterState) -> None:
    clock = Now(0.0)
    writer = HistoryWriter(tmp_path / "h.db", clock)
    writer.begun(holding("early", 0.0))
    writer.begun(holding("late", 3600.0, devices=1))
    writer.ended(holding("early", 0.0), 7200.0)
    writer.close()
    found = usage(state, period=UsagePeriod(tmp_path / "h.db", 3600.0, 10800.0))
    hours = {one.name: one.device_hours for one in found.rows}
    # Two devices for one hour, and one for two.
    assert hours == {"default": 0.0, "team": 4.0}
    assert "4.00" in usage_text(found)


def test_what_is_held_still_is_reopened_after_a_restart_and_the_rest_is_closed(tmp_path: Path) -> None:
    path, clock = tmp_path / "h.db", Now(100.0)
    writer = HistoryWriter(path, clock)
    writer.begun(holding("stays", 10.0))
    writer.begun(holding("goes", 20.0))
    clock.time = 500.0
    writer.close()
    clock.time = 900.0
    writer = HistoryWriter(path, clock)
    writer.begun(holding("stays", 10.0))
    writer.close()
    found = {one.claim: seconds for one, seconds in read_history(path, 0.0, 1000.0)}
    assert found == {"stays": 990.0, "goes": 480.0}


def test_what_ended_long_ago_is_deleted(tmp_path: Path) -> None:
    path, clock = tmp_path / "h.db", Now(0.0)
    writer = HistoryWriter(path, clock, days=1.0)
    writer.begun(holding("old", 0.0))
    writer.ended(holding("old", 0.0), 60.0)
    clock.time = 2 * 86400.0
    writer.begun(holding("new", clock.time - 10))
    writer.close()
    assert [one.claim for one, _ in read_history(path, 0.0, clock.time)] == ["new"]


@pytest.mark.parametrize(
    ("content", "text"), [(None, "there is no such file"), ("no database", "file is not a database")]
)
def test_a_file_that_is_no_history_is_refused(tmp_path: Path, content: str | None, text: str) -> None:
    path = tmp_path / "h.db"
    if content is not None:
        path.write_text(content * 100)
    with pytest.raises(InvalidInput, match=text):
        list(read_history(path, 0.0, 1.0))


def test_what_claims_hold_is_counted_against_quotas_on_it() -> None:
    name = "gpu.deviceclass.scheduling.cathedra.dev/devices"
    quota = {**QUOTA, "spec": {"hard": {name: "4"}}, "status": {}}
    found = usage(read_dump([CLASS, quota, *node("a", 4), *pod("one", 2, "a", ["gpu-0", "gpu-1"]), *pod("waits", 1)]))
    assert [(one.resource, one.used, one.hard) for one in found.quotas] == [(name, "2", "4")]
