"""The kill matrix of ``python -m tools.kills``: one fault point of each part, and the messages of a full disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kills.__main__ import Plan, run, run_first_starts
from tools.kills.shortages import SCENARIOS
from tools.kills.shortages import run as run_shortages
from tools.kills.tables import Cell, Shortage, kill_table, shortage_table, write_table, written_table

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
async def test_a_cluster_reports_what_it_lacks_and_works_again_when_it_is_there(folder: Path) -> None:
    wanted = {
        "disk of the store full": "Internal error occurred: the store could not commit: database or disk is full",
        "store null": "is no database of Cathedra's, or is damaged",
        "node checkpoint truncated": "checkpoint is corrupted: Input data was truncated",
        "no descriptors for the API server": "no connection can be accepted now, and they wait: Too many open files",
        "no memory for the driver": "",
        "no processes for the scheduler": "nothing: it needs no more",
    }
    found = await run_shortages(folder, list(wanted))
    assert {one.name: one.violation for one in found} == dict.fromkeys(wanted, "")
    assert [one.name for one in found if wanted[one.name] not in one.line] == []


def test_the_page_has_a_row_for_each_shortage() -> None:
    assert written_table("shortages") == list(SCENARIOS)


def test_a_table_replaces_the_one_of_its_name_and_leaves_out_what_differs_between_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- shortages -->\nold\n<!-- /shortages -->\nafter\n")
    line = f"2026-01-02 ERROR   cluster cannot use {tmp_path}/data of 127.0.0.1:4242: a|b"
    write_table("shortages", shortage_table([Shortage("x", line, 1.25)], tmp_path), page)
    assert page.read_text().splitlines()[4:] == [
        r"| x | `cannot use …/data of ADDRESS: a\|b` | 1.2 s | 0 |",
        "<!-- /shortages -->",
        "after",
    ]
    assert written_table("shortages", page) == ["x"]


def test_the_table_counts_kills_by_part() -> None:
    cells = [Cell("driver: a", 2, 0, 1.5), Cell("driver: b", 1, 0, 3.0), Cell("scheduler: a", 0, 1)]
    assert kill_table(cells).splitlines()[2:] == ["| driver | 2 | 3 | 3.0 s | 0 |"]
