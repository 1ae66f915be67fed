"""Files of a simulated disk: what is durable, torn and lost, under SQLite itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from random import Random

import pytest

from cathedra.faultsim.sqlitefiles import SECTOR, FilesVFS, PlayedFile, PlayedFiles, available

needs_vfs = pytest.mark.skipif(not available(), reason="this Python does not link libsqlite3 dynamically")


@pytest.fixture
def disk() -> Iterator[FilesVFS]:
    made = FilesVFS(PlayedFiles(Random(1)))
    yield made
    made.close()


def opened(disk: FilesVFS) -> sqlite3.Connection:
    connection = disk.connect("store.db")
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("create table if not exists t (a integer primary key, b blob)")
    return connection


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [number for (number,) in connection.execute("select a from t order by a")]


def test_what_was_synced_survives_and_the_rest_is_kept_torn_or_lost_by_chance() -> None:
    found = set()
    for seed in range(30):
        file = PlayedFile()
        file.write(0, b"a" * SECTOR)
        file.sync()
        file.write(SECTOR, b"b" * SECTOR * 2)
        file.lose_power(Random(seed))
        assert file.content.startswith(b"a" * SECTOR)
        found.add(len(file.content) // SECTOR)
    assert found == {1, 2, 3}


def test_a_failed_sync_loses_what_a_later_one_does_not_write() -> None:
    found = set()
    for seed in range(10):
        file = PlayedFile()
        file.write(0, b"a")
        file.fail_sync(Random(seed))
        assert bytes(file.content) == b"a"
        file.sync()
        file.lose_power(Random(seed))
        found.add(bytes(file.content))
    assert found == {b"a", b""}


@needs_vfs
def test_every_commit_survives_a_power_failure_at_every_step(disk: FilesVFS) -> None:
    files = disk._files
    connection = opened(disk)
    committed: list[int] = []
    for number in range(60):
        files.left = number % 40 + 1
        tried = [number]
        try:
            connection.execute("insert into t values (?, ?)", (number, b"x" * 3000))
        except sqlite3.Error:
            pass
        else:
            committed.append(number)
            tried = []
        files.left = 0
        connection.close()
        files.lose_power()
        connection = opened(disk)
        found = numbers(connection)
        # The insert that the power failed in is there whole, or not at all.
        assert [one for one in found if one not in tried] == committed
        committed = found
        assert connection.execute("pragma quick_check").fetchone() == ("ok",)
    assert len(committed) > 10
    connection.close()


@needs_vfs
def test_a_full_disk_and_a_failing_sync_fail_the_transaction_alone(disk: FilesVFS) -> None:
    files = disk._files
    connection = opened(disk)
    connection.execute("insert into t values (1, '')")
    files.full = True
    with pytest.raises(sqlite3.OperationalError, match="full"):
        connection.execute("insert into t values (2, ?)", (b"x" * 100_000,))
    files.full, files.failing_syncs = False, 1.0
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        connection.execute("insert into t values (3, '')")
    files.failing_syncs = 0.0
    connection.execute("insert into t values (4, '')")
    assert numbers(connection) == [1, 4]
    files.left = 0
    connection.close()
    files.lose_power()
    connection = opened(disk)
    assert numbers(connection) == [1, 4]
    connection.close()
