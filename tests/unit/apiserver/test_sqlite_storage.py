"""The durable store: what was settled is there again, and files that are not ours to use are refused."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage


async def settled(store: SQLiteStorage, write: Write) -> StorageError | None:
    done: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    store.commit(write, done.set_result)
    return await done


def _note(order: list[int], revision: int, error: StorageError | None) -> None:
    assert error is None
    order.append(revision)


async def test_what_was_settled_is_loaded_again(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    assert (await store.load()).revision == 0
    assert await settled(store, Write("/g/r/a", 1, b"one")) is None
    assert await settled(store, Write("/g/r/b", 2, b"two")) is None
    assert await settled(store, Write("/g/r/a", 3, None)) is None
    await store.close()
    again = SQLiteStorage(tmp_path / "db")
    snapshot = await again.load()
    await again.close()
    assert snapshot.revision == 3
    assert [(r.key, r.revision, r.value) for r in snapshot.records] == [("/g/r/b", 2, b"two")]


async def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    with pytest.raises(StorageError, match="in use by another process"):
        await SQLiteStorage(tmp_path / "db").load()
    await store.close()


async def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    await store.close()
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("update meta set value = 99 where name = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="format 99"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("some notes of somebody's, long enough to have a header" * 20)
    with pytest.raises(StorageError, match="no database of Cathedra's, or is damaged"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_somebody_else_s_database_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("create table meta (text)")
    connection.close()
    with pytest.raises(StorageError, match="is a database, but none of Cathedra's"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_a_full_disk_fails_the_write_and_the_next_may_succeed(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    assert store.healthy
    connection = store._connection
    assert connection is not None
    connection.execute("pragma max_page_count=1")
    error = await settled(store, Write("/g/r/big", 1, b"x" * 100_000))
    assert "the store could not commit: database or disk is full" in str(error)
    assert not store.healthy
    connection.execute("pragma max_page_count=100000")
    assert await settled(store, Write("/g/r/small", 2, b"x")) is None
    assert store.healthy
    await store.close()
    again = SQLiteStorage(tmp_path / "db")
    assert [record.key for record in (await again.load()).records] == ["/g/r/small"]
    await again.close()


async def test_writes_of_one_batch_settle_in_order_and_the_last_of_a_key_counts(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    order: list[int] = []
    writes = [Write(f"/g/r/{number}", number + 1, b"first") for number in range(100)]
    writes += [Write("/g/r/3", 101, b"second"), Write("/g/r/4", 102, None), Write("/g/r/5", 103, None)]
    writes += [Write("/g/r/5", 104, b"again")]
    for write in writes:
        store.commit(write, partial(_note, order, write.revision))
    assert await settled(store, Write("/g/r/end", 105, b"")) is None
    await store.close()
    assert order == list(range(1, 105))
    again = SQLiteStorage(tmp_path / "db")
    snapshot = await again.load()
    await again.close()
    found = {record.key: (record.revision, record.value) for record in snapshot.records}
    assert snapshot.revision == 105
    assert len(found) == 100
    assert "/g/r/4" not in found
    assert (found["/g/r/3"], found["/g/r/5"]) == ((101, b"second"), (104, b"again"))


async def test_writes_that_wait_at_the_end_are_kept(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    for revision in (1, 2):
        store.commit(Write(f"/g/r/{revision}", revision, b"x"), lambda _: None)
    await store.close()
    again = SQLiteStorage(tmp_path / "db")
    assert (await again.load()).revision == 2
    await again.close()
