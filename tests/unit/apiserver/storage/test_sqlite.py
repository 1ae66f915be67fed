"""The durable store: what was settled is there again, and files that are not ours to use are refused."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
import sys
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from cathedra.apiserver.storage import compaction, sqlite, transactions
from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.apiserver.storage.sqlite import LostWrites, SQLiteStorage
from cathedra.apiserver.storage.transactions import FORMAT, commit_writes
from cathedra.memory import return_freed


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


class _Held:
    """Commits batches when released, and notes their revisions."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
        self.batches.append([write.revision for write in writes])
        self.begun.set()
        self.released.wait()
        return commit_writes(connection, writes)


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_write_that_follows_soon_from_a_settled_one_shares_the_transaction_of_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    held = _Held()

    async def chain() -> None:
        await settled(store, Write("/g/r/a", 1, b"one"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await settled(store, Write("/g/r/a", 3, b"three"))

    monkeypatch.setattr(compaction, "commit_writes", held)
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    async with asyncio.TaskGroup() as group:
        group.create_task(chain())
        await asyncio.to_thread(held.begun.wait)
        waiting = group.create_task(settled(store, Write("/g/r/b", 2, b"two")))
        await asyncio.sleep(0)
        held.released.set()
    assert waiting.result() is None
    assert held.batches == [[1], [2, 3]]
    await store.close()


async def test_many_writes_that_wait_are_committed_without_those_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = _Held()

    async def chain() -> None:
        await settled(store, Write("/g/r/a", 1, b"one"))
        await settled(store, Write("/g/r/a", 1 + last, b"later"))

    monkeypatch.setattr(compaction, "commit_writes", held)
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    last = sqlite._ENOUGH + 1
    async with asyncio.TaskGroup() as group:
        group.create_task(chain())
        await asyncio.to_thread(held.begun.wait)
        for revision in range(2, last + 1):
            group.create_task(settled(store, Write("/g/r/b", revision, b"two")))
        await asyncio.sleep(0)
        held.released.set()
    assert held.batches == [[1], list(range(2, last + 1)), [last + 1]]
    await store.close()


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
    (tmp_path / "db").write_text("some notes, long enough to have a header" * 20)
    with pytest.raises(StorageError, match="no database of Cathedra's, or is damaged"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("create table meta (text)")
    connection.close()
    with pytest.raises(StorageError, match="is a database, but none of Cathedra's"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_a_full_disk_fails_writes_with_one_line_of_the_log_and_later_ones_may_succeed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    assert store.healthy
    connection = store._connection
    assert connection is not None
    connection.execute("pragma max_page_count=1")
    error = await settled(store, Write("/g/r/big", 1, b"x" * 100_000))
    assert "the store could not commit: database or disk is full" in str(error)
    assert not store.healthy
    assert await settled(store, Write("/g/r/big", 2, b"x" * 100_000)) is not None
    connection.execute("pragma max_page_count=100000")
    assert await settled(store, Write("/g/r/small", 3, b"x")) is None
    assert store.healthy
    assert caplog.messages == [
        f"no write can be stored in {tmp_path / 'db'}: the store could not commit: database or disk is full",
        f"writes are stored in {tmp_path / 'db'} again",
    ]
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


@pytest.mark.parametrize("former", [1, 2])
async def test_a_database_of_a_former_format_goes_on_with_its_revision_and_has_the_new_format(
    tmp_path: Path, former: int
) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    connection.executescript(
        "create table meta (name text primary key, value integer not null) without rowid;"
        "create table objects (key text primary key, revision integer not null, value blob not null) without rowid;"
    )
    connection.execute("insert into objects (key, revision, value) values ('/g/r/a', 1, ?)", (b"a",))
    connection.executemany("insert into meta (name, value) values (?, ?)", [("format", former), ("revision", 7)])
    connection.commit()
    connection.close()
    assert await kept(tmp_path / "db") == (7, {"/g/r/a": b"a"})
    connection = sqlite3.connect(tmp_path / "db")
    assert dict(connection.execute("select name, value from meta")) == {"format": FORMAT, "revision": 7}
    connection.close()


@pytest.mark.parametrize("removed", [1, 3, 300])
async def test_the_revision_of_a_removal_outlives_what_it_removes(tmp_path: Path, removed: int) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    await together(store, *(Write(f"/g/r/{number}", number + 1, b"x") for number in range(removed)))
    await together(store, *(Write(f"/g/r/{number}", removed + number + 1, None) for number in range(removed)))
    await store.close()
    assert await kept(tmp_path / "db") == (2 * removed, {})


async def test_writes_that_wait_at_the_end_are_kept(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    for revision in (1, 2):
        store.commit(Write(f"/g/r/{revision}", revision, b"x"), lambda _: None)
    await store.close()
    again = SQLiteStorage(tmp_path / "db")
    assert (await again.load()).revision == 2
    await again.close()


async def together(store: SQLiteStorage, *writes: Write) -> list[StorageError | None]:
    return list(await asyncio.gather(*(settled(store, write) for write in writes)))


async def kept(path: Path, **options: int) -> tuple[int, dict[str, bytes]]:
    """Return the objects that a later process loads."""
    store = SQLiteStorage(path, **options)
    snapshot = await store.load()
    await store.close()
    return snapshot.revision, {record.key: record.value for record in snapshot.records}


@pytest.mark.parametrize(
    ("bad", "healthy"),
    [
        (Write("/g/r/\ud800", 3, b"x"), True),
        (Write("/g/r/b", 2**63, b"x"), False),
    ],
)
async def test_a_write_that_cannot_be_stored_fails_alone(tmp_path: Path, bad: Write, healthy: bool) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    errors = await together(store, Write("/g/r/a", 1, b"a"), Write("/g/r/c", 2, b"c"), bad)
    assert [error is None for error in errors] == [True, True, False]
    assert store.healthy is healthy
    assert await settled(store, Write("/g/r/d", 4, b"d")) is None
    assert store.healthy
    await store.close()
    assert await kept(tmp_path / "db") == (4, {"/g/r/a": b"a", "/g/r/c": b"c", "/g/r/d": b"d"})


async def test_a_value_that_is_too_big_fails_alone_and_many_large_ones_share_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_LARGEST", 2_000)
    monkeypatch.setattr(transactions, "_FEW", 1)
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    assert store._connection is not None
    store._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 3_000)
    large = [Write(f"/g/r/{number}", number + 1, b"x" * 900) for number in range(9)]
    assert await together(store, *large) == [None] * 9
    errors = await together(store, Write("/g/r/a", 10, b"a"), Write("/g/r/b", 11, b"x" * 4_000))
    assert (errors[0], str(errors[1])) == (None, "the store could not commit: string or blob too big")
    await store.close()
    revision, found = await kept(tmp_path / "db")
    assert (revision, len(found), "/g/r/b" in found) == (10, 10, False)


async def test_want_of_memory_fails_the_write_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = transactions._append

    def append(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
        if any(write.key == "/g/r/huge" for write in writes):
            raise MemoryError
        real(connection, writes)

    monkeypatch.setattr(transactions, "_append", append)
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    errors = await together(store, Write("/g/r/a", 1, b"a"), Write("/g/r/huge", 2, b"h"))
    assert errors[0] is None
    assert str(errors[1]) == "the store could not commit: MemoryError"
    assert not store.healthy
    assert await settled(store, Write("/g/r/b", 3, b"b")) is None
    assert store.healthy
    await store.close()
    assert await kept(tmp_path / "db") == (3, {"/g/r/a": b"a", "/g/r/b": b"b"})


@pytest.mark.parametrize("committed", [True, False])
async def test_a_writer_that_ends_is_replaced_and_tells_the_truth_about_its_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    real = commit_writes

    def end(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
        monkeypatch.setattr(compaction, "commit_writes", real)
        if committed:
            real(connection, writes)
        raise SystemExit

    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    monkeypatch.setattr(compaction, "commit_writes", end)
    error = await settled(store, Write("/g/r/a", 1, b"a"))
    assert (error is None) is committed
    assert await settled(store, Write("/g/r/b", 2, b"b")) is None
    assert store.healthy
    await store.close()
    revision, found = await kept(tmp_path / "db")
    assert (revision, "/g/r/a" in found, "/g/r/b" in found) == (2, committed, True)


async def unhealthy(store: SQLiteStorage) -> None:
    while store.healthy:  # noqa: ASYNC110 - the store returns its health only when called, as a readiness check does
        await asyncio.sleep(0)


async def test_while_no_writer_can_be_started_writes_fail_at_once_and_the_store_is_not_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> list[StorageError | None]:
        raise SystemExit

    def refuse(self: SQLiteStorage) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    with monkeypatch.context() as broken:
        broken.setattr(sqlite, "_RESTART_SECONDS", 0.01)
        broken.setattr(compaction, "commit_writes", end)
        broken.setattr(SQLiteStorage, "_open", refuse)
        under_way = asyncio.create_task(settled(store, Write("/g/r/a", 1, b"a")))
        await unhealthy(store)
        assert "cannot be written now" in str(await settled(store, Write("/g/r/b", 2, b"b")))
        assert not under_way.done()
    assert "its writer ended" in str(await under_way)
    assert await settled(store, Write("/g/r/c", 3, b"c")) is None
    assert store.healthy
    await store.close()


async def test_a_callback_that_fails_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def fail(error: StorageError | None) -> None:
        raise RuntimeError

    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    store.commit(Write("/g/r/a", 1, b"a"), fail)
    assert await settled(store, Write("/g/r/b", 2, b"b")) is None
    await store.close()


async def written(path: Path) -> None:
    """A store as a killed process leaves it: the last writes are in the write-ahead log alone."""
    store = SQLiteStorage(path / "live")
    await store.load()
    for revision in (1, 2, 3):
        assert await settled(store, Write(f"/g/r/{revision}", revision, b"x")) is None
    for suffix in ("", "-wal", ".revision"):
        shutil.copy(path / f"live{suffix}", path / f"db{suffix}")
    await store.close()


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("loss", "names"),
    [(Path.unlink, ("db-wal",)), (empty, ("db", "db-wal")), (Path.unlink, ("db", "db-wal"))],
    ids=["log removed", "database emptied", "database removed"],
)
async def test_a_database_that_lost_acknowledged_writes_is_refused_until_the_loss_is_accepted(
    tmp_path: Path, loss: Callable[[Path], None], names: tuple[str, ...]
) -> None:
    await written(tmp_path)
    for name in names:
        loss(tmp_path / name)
    for accepted in (None, 2):
        with pytest.raises(LostWrites, match=r"revision 3 was acknowledged.*--accept-lost-writes 3"):
            await SQLiteStorage(tmp_path / "db", accept_lost_writes=accepted).load()
    assert await kept(tmp_path / "db", accept_lost_writes=3) == (3, {})
    # Later revisions go on from there, so that none means two states, and the loss needs no accepting again.
    assert (await kept(tmp_path / "db"))[0] == 3


async def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    await written(tmp_path)
    revision, found = await kept(tmp_path / "db")
    assert (revision, len(found)) == (3, 3)


async def test_a_damaged_note_of_the_last_revision_is_refused(tmp_path: Path) -> None:
    await written(tmp_path)
    (tmp_path / "db.revision").write_text("nonsense")
    with pytest.raises(StorageError, match=r"db\.revision is damaged"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_another_program_can_copy_the_database_while_it_is_written(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    assert await settled(store, Write("/g/r/a", 1, b"a")) is None
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))"
    arguments = (sys.executable, "-c", program, tmp_path / "db", tmp_path / "copy")
    process = await asyncio.create_subprocess_exec(*arguments)
    assert await process.wait() == 0
    assert await settled(store, Write("/g/r/b", 2, b"b")) is None
    await store.close()
    assert await kept(tmp_path / "copy") == (1, {"/g/r/a": b"a"})


async def test_a_backup_is_one_moment_of_the_store_and_a_store_itself(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    writes = [asyncio.create_task(settled(store, Write(f"/g/r/{number}", number, b"x"))) for number in range(1, 200)]
    await writes[50]
    revision = await store.backup(tmp_path / "copy")
    await asyncio.gather(*writes)
    await store.close()
    found, objects = await kept(tmp_path / "copy")
    assert (found, len(objects)) == (revision, revision)
    assert revision > 50
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600


async def test_a_backup_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    with pytest.raises(StorageError, match="could not be copied"):
        await store.backup(tmp_path / "missing" / "copy")
    await store.close()


def modes(path: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in (path, *path.iterdir())}


def open_to_others(path: Path) -> None:
    path.chmod(0o755)
    for one in path.iterdir():
        one.chmod(0o644)


async def test_what_was_open_to_others_before_is_closed(tmp_path: Path) -> None:
    await written(tmp_path / "data")
    open_to_others(tmp_path / "data")
    store = SQLiteStorage(tmp_path / "data" / "db")
    await store.load()
    found = modes(tmp_path / "data")
    await store.close()
    expected = {"data": 0o700, **dict.fromkeys(("db", "db-wal", "db-shm", "db.revision"), 0o600)}
    assert {name: found[name] for name in expected} == expected


def _pod(number: int) -> bytes:
    return b'{"kind":"Pod","spec":{"nodeName":"node-%d","x":"%s"}}' % (number, b"y" * 300)


async def _database(path: Path, count: int) -> dict[str, bytes]:
    """Write a database, and return what it holds."""
    store = SQLiteStorage(path)
    await store.load()
    objects = {f"/registry/pods/default/p{number}": _pod(number) for number in range(count)}
    await together(store, *[Write(key, number + 1, value) for number, (key, value) in enumerate(objects.items())])
    for number, (key, value) in enumerate(objects.items()):
        await settled(store, Write(key, count + number + 1, value))
    await store.close()
    connection = sqlite3.connect(path)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    return objects


@pytest.mark.parametrize("seed", range(8))
async def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, seed: int) -> None:
    objects = await _database(tmp_path / "db", 60)
    whole = (tmp_path / "db").read_bytes()
    random, refused = Random(seed), 0
    for _ in range(25):
        data = bytearray(whole)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"db{suffix}").unlink(missing_ok=True)
        (tmp_path / "db").write_bytes(data)
        try:
            _, found = await kept(tmp_path / "db")
        except StorageError:
            refused += 1
        else:
            assert found == objects
    assert refused


async def test_the_refusal_of_a_changed_row_names_its_revision_and_what_to_do(tmp_path: Path) -> None:
    await _database(tmp_path / "db", 5)
    data = (tmp_path / "db").read_bytes()
    (tmp_path / "db").write_bytes(data.replace(b"node-3", b"node-4"))
    with pytest.raises(
        StorageError, match=r"the row of revision \d+ is damaged: its checksum is wrong; bring a backup"
    ):
        await SQLiteStorage(tmp_path / "db").load()


async def test_rows_of_an_earlier_version_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db", isolation_level=None)
    connection.executescript(
        "create table meta (name text primary key, value integer not null) without rowid;"
        "create table batches (revision integer primary key, writes blob not null);"
        f"insert into meta values ('format', {FORMAT});"
    )
    batch = msgspec.msgpack.encode([("/g/r/a", 1, b"one")])
    connection.execute("insert into batches values (1, ?)", (batch,))
    connection.close()
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    await settled(store, Write("/g/r/b", 2, b"two"))
    await store.close()
    assert await kept(tmp_path / "db") == (2, {"/g/r/a": b"one", "/g/r/b": b"two"})


async def test_records_are_released_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "RECENT", 0)
    monkeypatch.setattr(sqlite, "_RELEASED", 1000)
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    for number in range(1, 21):
        assert await settled(store, Write(f"/g/r/{number}", number, b"x" * 100_000)) is None
    await store.close()
    again = SQLiteStorage(tmp_path / "db")
    return_freed()  # loads a module whose memory would be counted
    tracemalloc.start()
    try:
        left = iter((await again.load()).records)
        whole, _ = tracemalloc.get_traced_memory()
        assert [next(left).revision for _ in range(15)] == [*range(1, 16)]
        assert whole - tracemalloc.get_traced_memory()[0] > 1_000_000
        assert [record.revision for record in left] == [*range(16, 21)]
    finally:
        tracemalloc.stop()
        await again.close()
