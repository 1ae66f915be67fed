"""Compaction: the log stays short, and what is stored stays the same whatever has been removed of it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.apiserver.storage.compaction import Compaction
from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.apiserver.storage.transactions import (
    FORMAT,
    SCHEMA,
    batch_of,
    commit_writes,
    put_into_log,
    records,
    rows,
    stored_facts,
)

SIZE = 100
"""Bytes of a write in these tests, about."""


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    connection.execute("insert into meta (name, value) values ('format', ?)", (FORMAT,))
    return connection


def compaction_of(connection: sqlite3.Connection, kept: int = 20 * SIZE, part: int = 10 * SIZE) -> Compaction:
    return Compaction(connection, records(connection), kept=kept, part=part)


def log_length(connection: sqlite3.Connection) -> int:
    return int(connection.execute("select total(length(writes)) from batches").fetchone()[0])


def in_log(connection: sqlite3.Connection) -> list[Write]:
    return [write for row in rows(connection) for write in batch_of(row)]


def commit(compaction: Compaction, writes: Sequence[Write]) -> list[StorageError | None]:
    errors = compaction.commit(writes)
    compaction.follow([write for write, error in zip(writes, errors, strict=True) if error is None])
    return errors


def stored(connection: sqlite3.Connection) -> dict[str, tuple[int, bytes]]:
    return {record.key: (record.revision, record.value) for record in records(connection)}


def batches(keys: int) -> st.SearchStrategy[list[tuple[list[tuple[int, bool]], bool]]]:
    """Batches of writes and removals of some keys, and whether the store is started again after each."""
    writes = st.lists(st.tuples(st.integers(0, keys), st.booleans()), min_size=1, max_size=300)
    return st.lists(st.tuples(writes, st.booleans()), min_size=1, max_size=8)


@pytest.mark.parametrize("limits", [None, (0, 1), (0, 300), (600, 1), (600, 300)])
@given(batches=st.sampled_from((30, 400)).flatmap(batches))
@settings(max_examples=25)
def test_a_database_holds_what_its_batches_say_compacted_or_not(
    limits: tuple[int, int] | None, batches: list[tuple[list[tuple[int, bool]], bool]]
) -> None:
    connection = database()
    compaction = None if limits is None else compaction_of(connection, *limits)
    expected: dict[str, tuple[int, bytes]] = {}
    revision = 0
    for batch, restarts in batches:
        writes = []
        for number, removes in batch:
            revision += 1
            key = f"/g/r/{number}"
            writes.append(Write(key, revision, None if removes else b"%030d" % revision))
            expected.pop(key, None)
            if not removes:
                expected[key] = (revision, b"%030d" % revision)
        errors = commit_writes(connection, writes) if compaction is None else commit(compaction, writes)
        assert errors == [None] * len(writes)
        assert not connection.in_transaction
        assert stored_facts(connection) == {"format": FORMAT, "revision": revision}
        assert stored(connection) == expected
        if restarts and limits is not None:
            compaction = compaction_of(connection, *limits)
    connection.close()


def test_a_log_is_not_much_longer_than_twice_what_it_holds() -> None:
    connection = database()
    compaction = compaction_of(connection)
    for revision in range(1, 51):
        commit(compaction, [Write(f"/g/r/lasting-{revision}", revision, b"x" * SIZE)])
    longest = 0
    for revision in range(51, 3_001):
        commit(compaction, [Write(f"/g/r/{revision % 7}", revision, b"x" * SIZE)])
        longest = max(longest, log_length(connection))
    assert longest < 1.3 * (2.5 * 57 + 20 + 10 + 4) * SIZE
    assert len(stored(connection)) == 57
    connection.close()


def test_where_nothing_is_out_of_date_nothing_is_written_again() -> None:
    connection = database()
    compaction = compaction_of(connection)
    for revision in range(1, 500):
        commit(compaction, [Write(f"/g/r/{revision}", revision, b"x" * SIZE)])
    assert [write.revision for write in in_log(connection)] == list(range(1, 500))
    connection.close()


def test_a_removal_is_forgotten_with_what_came_before_it_and_the_revision_is_not() -> None:
    connection = database()
    compaction = compaction_of(connection, kept=0, part=1)
    commit(compaction, [Write("/g/r/a", 1, b"x" * SIZE)])
    commit(compaction, [Write("/g/r/a", 2, None)])
    for revision in range(3, 8):
        commit(compaction, [Write("/g/r/b", revision, b"x")])
    assert "/g/r/a" not in {write.key for write in in_log(connection)}
    commit(compaction, [Write("/g/r/b", 8, None)])
    commit(compaction, [Write("/g/r/c", 9, None)])
    commit(compaction, [Write("/g/r/c", 10, None)])
    assert stored(connection) == {}
    assert stored_facts(connection)["revision"] == 10
    connection.close()


def test_rows_stay_until_what_holds_of_them_has_been_written_again() -> None:
    connection = database()
    compaction = compaction_of(connection, kept=0, part=1)
    commit(compaction, [Write("/g/r/lasting", 1, b"x" * SIZE)])
    revision = 1
    while len(in_log(connection)) == revision:  # until something has been removed, or has come along
        revision += 1
        commit(compaction, [Write("/g/r/a", revision, b"x" * SIZE)])
        assert stored(connection).keys() == {"/g/r/lasting", "/g/r/a"}
    connection.close()


def test_what_cannot_go_along_stays_where_it_is_and_the_writes_are_kept_without_it() -> None:
    connection = database()
    compaction = compaction_of(connection, kept=0, part=1)
    lasting = b"lasting" * 20
    commit(compaction, [Write("/g/r/lasting", 1, lasting)])
    connection.create_function("has_lasting", 1, lambda row: lasting in row)
    connection.execute(
        "create trigger refused before insert on batches when has_lasting(new.writes) "
        "begin select raise(abort, 'no room'); end"
    )
    for revision in range(2, 30):
        assert commit(compaction, [Write("/g/r/a", revision, b"x" * SIZE)]) == [None]
        assert stored(connection)["/g/r/lasting"] == (1, lasting)
    connection.execute("drop trigger refused")
    for revision in range(30, 60):
        assert commit(compaction, [Write("/g/r/a", revision, b"x" * SIZE)]) == [None]
    assert stored(connection).keys() == {"/g/r/lasting", "/g/r/a"}
    assert len(in_log(connection)) < 20
    connection.close()


def test_a_write_that_fails_beside_what_goes_along_fails_alone() -> None:
    connection = database()
    compaction = compaction_of(connection, kept=0, part=1)
    commit(compaction, [Write("/g/r/lasting", 1, b"x" * SIZE)])
    for revision in range(2, 40, 2):
        writes = [Write("/g/r/a", revision, b"x" * SIZE), Write("/g/r/\ud800", revision + 1, b"x")]
        good, bad = commit(compaction, writes)
        assert good is None
        assert isinstance(bad, StorageError)
        assert stored(connection).keys() == {"/g/r/lasting", "/g/r/a"}
        assert stored_facts(connection)["revision"] == revision
    connection.close()


def test_a_batch_of_nothing_leaves_everything_as_it_is() -> None:
    connection = database()
    compaction = compaction_of(connection, kept=0, part=1)
    for revision in range(1, 6):
        commit(compaction, [Write(f"/g/r/{revision % 2}", revision, b"x" * SIZE)])
    before = in_log(connection)
    assert commit(compaction, []) == []
    assert in_log(connection) == before
    connection.close()


def test_what_cannot_be_removed_stays_in_the_log_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    connection = database()
    compaction = compaction_of(connection, kept=3 * SIZE, part=2 * SIZE)
    connection.execute("create trigger locked before delete on batches begin select raise(abort, 'locked'); end")
    with caplog.at_level(logging.WARNING):
        for revision in range(1, 21):
            commit(compaction, [Write("/g/r/a", revision, b"x" * SIZE)])
    assert "the beginning of the store's log could not be removed: locked" in caplog.text
    assert not connection.in_transaction
    assert stored(connection) == {"/g/r/a": (20, b"x" * SIZE)}
    connection.execute("drop trigger locked")
    for revision in range(21, 60):
        commit(compaction, [Write("/g/r/a", revision, b"x" * SIZE)])
    assert len(in_log(connection)) < 12
    assert stored(connection) == {"/g/r/a": (59, b"x" * SIZE)}
    connection.close()


def test_a_table_of_objects_becomes_the_beginning_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cathedra.apiserver.storage.transactions._CHUNK", 3)
    connection = database()
    connection.execute(
        "create table objects (key text primary key, revision integer not null, value blob not null) without rowid"
    )
    for number in range(1, 8):
        connection.execute(
            "insert into objects (key, revision, value) values (?, ?, ?)", (f"/g/r/{number}", number, b"x")
        )
    assert stored_facts(connection)["revision"] == 7
    commit_writes(connection, [Write("/g/r/2", 8, b"new"), Write("/g/r/3", 9, None)])
    for _ in range(2):
        put_into_log(connection)
        assert stored(connection) == {
            "/g/r/1": (1, b"x"),
            "/g/r/2": (8, b"new"),
            **{f"/g/r/{number}": (number, b"x") for number in range(4, 8)},
        }
        assert stored_facts(connection)["revision"] == 9
    assert connection.execute("select name from sqlite_master where name = 'objects'").fetchall() == []
    connection.close()


def test_the_revision_of_a_table_of_objects_goes_on_without_a_log() -> None:
    connection = database()
    connection.execute("create table objects (key text primary key, revision integer not null, value blob not null)")
    connection.execute("insert into objects values ('/g/r/a', 5, ?)", (b"x",))
    put_into_log(connection)
    assert stored(connection) == {"/g/r/a": (5, b"x")}
    assert stored_facts(connection)["revision"] == 5
    connection.close()


def test_a_table_of_objects_that_cannot_be_put_into_the_log_stays() -> None:
    connection = database()
    connection.execute("create table objects (key text primary key, revision integer not null, value blob not null)")
    connection.execute("insert into objects values ('/g/r/a', 5, ?)", (b"x",))
    connection.execute("create trigger full before insert on batches begin select raise(abort, 'no room'); end")
    with pytest.raises(sqlite3.Error, match="no room"):
        put_into_log(connection)
    assert not connection.in_transaction
    assert connection.execute("select count(*) from objects").fetchone() == (1,)
    connection.close()
