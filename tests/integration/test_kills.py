"""The kill matrix of ``python -m tools.kills``: one fault point of each part, and what a full disk says."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kills.__main__ import Cell, Plan, run, run_first_starts, table
from tools.kills.shortages import run as run_shortages

SAMPLE = (
    "API server: after commit of a transaction",
    "scheduler: after update resourceclaims/status",
    "node agent: after call of NodePrepareResources",
    "driver: before rename to checkpoint.json",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        yield Path(name)


async def test_a_pod_gets_its_devices_whichever_part_dies_at_one_of_its_points(folder: Path) -> None:
    cells = await run(folder, Plan(together=False, only="|".join(f"^{point}$" for point in SAMPLE)))
    assert {cell.point for cell in cells} == set(SAMPLE)
    assert [(cell.kills, cell.violations) for cell in cells] == [(1, [])] * len(SAMPLE)


async def test_a_first_start_that_dies_is_completed_by_the_next_one(folder: Path) -> None:
    cells = await run_first_starts(folder, 60, "before rename to (ca.crt|sa.key)|after commit")
    assert [(cell.kills, cell.violations) for cell in cells] == [(1, [])] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_a_full_disk_refuses_writes_and_connections_without_a_descriptor_wait(folder: Path) -> None:
    found = await run_shortages(folder, ["disk of the store full", "no descriptors for the API server"])
    assert found["disk of the store full"] == (
        "Internal error occurred: the store could not commit: database or disk is full",
        "",
    )
    line, wrong = found["no descriptors for the API server"]
    assert "no connection can be accepted now, and they wait: Too many open files" in line
    assert wrong == ""


def test_the_table_counts_kills_by_part() -> None:
    cells = [Cell("driver: a", 2, 0, 1.5), Cell("driver: b", 1, 0, 3.0), Cell("scheduler: a", 0, 1)]
    assert table(cells).splitlines()[2:] == ["| driver | 2 | 3 | 3.0 s | 0 |"]
