"""A store on SQLite: what was acknowledged is there after a power failure, and what is missing is reported."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.clock import run_virtual
from cathedra.faultsim.plan import InvalidPlan, Options, draw
from cathedra.faultsim.runs import run_plan
from cathedra.faultsim.sqlitefiles import available
from cathedra.faultsim.sqlitestore import SQLiteDisk, SQLiteStore
from tests.running import on_virtual_clock

pytestmark = pytest.mark.skipif(not available(), reason="this Python does not link libsqlite3 dynamically")


def test_acknowledged_writes_survive_each_end_of_a_server() -> None:
    async def main(seed: int) -> None:
        kept: list[int] = []
        problems: list[str] = []
        disk = SQLiteDisk(Random(seed), lambda write: kept.append(write.revision), problems.append)
        acknowledged: list[int] = []
        revision = 0
        for life in range(6):
            store = SQLiteStore(disk)
            content = await store.load()
            assert problems == []
            assert {one.revision for one in content.records} >= set(acknowledged[-3:])
            disk.failing_syncs = 0.3 if life % 2 else 0.0
            for _ in range(8):
                revision += 1

                def settled(error: StorageError | None, revision: int = revision) -> None:
                    if error is None:
                        acknowledged.append(revision)

                store.commit(Write(f"/pods/default/p{revision}", revision, b"x" * 900), settled)
                await asyncio.sleep(0.01)
            disk.failing_syncs = 0.0
            revision += 1
            store.commit(Write("/pods/default/last", revision, b"x"), lambda _: None)
            store.die()
        assert set(acknowledged) <= set(kept)
        assert len(acknowledged) > 20
        disk.vfs.close()

    for seed in range(5):
        run_virtual(main(seed))


def test_a_write_that_is_lost_is_reported() -> None:
    async def main() -> list[str]:
        problems: list[str] = []
        disk = SQLiteDisk(Random(1), lambda _: None, problems.append)
        store = SQLiteStore(disk)
        await store.load()
        store.commit(Write("/pods/default/p", 1, b"x"), lambda _: None)
        await asyncio.sleep(1)
        store.die()
        disk.files.files.clear()
        store = SQLiteStore(disk)
        await store.load()
        await store.close()
        disk.vfs.close()
        return problems

    (problem,) = run_virtual(main())
    assert problem.startswith("/pods/default/p was acknowledged at 1 and is at 0 after the start")


@on_virtual_clock
async def test_a_full_disk_refuses_writes_until_there_is_room() -> None:
    disk = SQLiteDisk(Random(1), lambda _: None, pytest.fail)
    store = SQLiteStore(disk)
    await store.load()
    errors: list[StorageError | None] = []
    disk.full = True
    store.commit(Write("/pods/p", 1, b"x" * 50_000), errors.append)
    await asyncio.sleep(1)
    assert "database or disk is full" in str(errors[0])
    assert not store.healthy
    disk.full = False
    store.commit(Write("/pods/p", 2, b"x"), errors.append)
    await asyncio.sleep(1)
    assert (errors[1], store.healthy, disk.revision) == (None, True, 2)
    await store.close()
    disk.vfs.close()


def test_a_cluster_on_sqlite_keeps_its_invariants() -> None:
    options = Options(hours=0.5, sqlite=True, faults=("disk-full", "sync-errors", "kill", "kill-at-write"))
    plan = draw(4, options)
    assert (plan.setup.sqlite, plan.setup.servers) == (True, 1)
    outcome = run_plan(plan)
    assert not outcome.failed, outcome.text
    assert run_plan(plan).digest == outcome.digest


def test_a_python_without_the_library_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cathedra.faultsim.plan.available", lambda: False)
    with pytest.raises(InvalidPlan, match="dynamically"):
        draw(1, Options(sqlite=True))
