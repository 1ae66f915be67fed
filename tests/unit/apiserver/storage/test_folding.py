"""Folding: the log stays short, and what is stored stays the same whatever has been folded of it."""

from __future__ import annotations

import logging
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.apiserver.storage.folding import Folding
from cathedra.apiserver.storage.protocol import Write
from cathedra.apiserver.storage.transactions import SCHEMA, commit_writes, records, stored_facts


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA)
    return connection


def log_length(connection: sqlite3.Connection) -> int:
    return int(connection.execute("select total(length(writes)) from batches").fetchone()[0])


def commit(connection: sqlite3.Connection, folding: Folding, writes: list[Write]) -> None:
    assert commit_writes(connection, writes) == [None] * len(writes)
    folding.follow(writes)


batches = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=200),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(batches=batches)
@settings(max_examples=60)
def test_folding_changes_nothing_of_what_is_stored_also_across_restarts(
    batches: list[tuple[list[tuple[int, bool]], bool]],
) -> None:
    connection = database()
    folding = Folding(connection, kept=600, part=300)
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
        commit(connection, folding, writes)
        assert not connection.in_transaction
        assert stored_facts(connection)["revision"] == revision
        assert {record.key: (record.revision, record.value) for record in records(connection)} == expected
        if restarts:
            folding = Folding(connection, kept=600, part=300)
    connection.close()


def test_a_log_does_not_grow_without_end_and_only_last_states_become_rows() -> None:
    connection = database()
    folding = Folding(connection, kept=20_000, part=5_000)
    longest = 0
    for revision in range(1, 2_001):
        commit(connection, folding, [Write(f"/g/r/{revision % 7}", revision, b"x" * 100)])
        longest = max(longest, log_length(connection))
    assert longest < 20_000 + 5_000 + 2_000
    assert connection.execute("select count(*) from objects").fetchone() == (7,)
    assert len(list(records(connection))) == 7
    connection.close()


def test_the_revision_of_a_removal_outlives_the_log_that_told_of_it() -> None:
    connection = database()
    folding = Folding(connection, kept=0, part=1)
    commit(connection, folding, [Write("/g/r/a", 1, b"x")])
    assert log_length(connection) == 0
    folding = Folding(connection, kept=-1, part=1)
    commit(connection, folding, [Write("/g/r/a", 2, None)])
    assert log_length(connection) == 0
    assert list(records(connection)) == []
    assert stored_facts(connection)["revision"] == 2
    connection.close()


def test_what_cannot_be_folded_stays_in_the_log_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    connection = database()
    folding = Folding(connection, kept=300, part=200)
    connection.execute("create trigger full before insert on objects begin select raise(abort, 'no room'); end")
    with caplog.at_level(logging.WARNING):
        for revision in range(1, 8):
            commit(connection, folding, [Write(f"/g/r/{revision}", revision, b"x" * 100)])
    assert "could not be put into its table of objects: no room" in caplog.text
    assert not connection.in_transaction
    assert len(list(records(connection))) == 7
    connection.execute("drop trigger full")
    for revision in range(8, 20):
        commit(connection, folding, [Write(f"/g/r/{revision}", revision, b"x" * 100)])
    assert connection.execute("select count(*) from objects").fetchone()[0] > 5
    assert len(list(records(connection))) == 19
    connection.close()
