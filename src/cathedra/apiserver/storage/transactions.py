"""Transactions on the SQLite database: its tables, one transaction per batch of writes, and what became of each write.

A batch fails or succeeds as one. If it fails for a reason that lies in one of its writes (a key that is no UTF-8, a
value that is too big), or for want of memory, each write is tried alone, so that only the bad one fails.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cathedra.apiserver.storage.protocol import Record, StorageError, Write

__all__ = [
    "FORMAT",
    "SCHEMA",
    "WriteRefused",
    "commit_writes",
    "is_kept",
    "records",
    "skip_to_revision",
    "stored_facts",
]

FORMAT: Final = 1
"""Version of the tables; a file of another version is refused."""

SCHEMA: Final = """
create table if not exists meta (name text primary key, value integer not null) without rowid;
create table if not exists objects (key text primary key, revision integer not null, value blob not null) without rowid;
"""
_PUT: Final = "insert or replace into objects (key, revision, value) values (?, ?, ?)"
_REMOVE: Final = "delete from objects where key = ?"
_TOGETHER: Final = (64, 16, 4, 1)
"""How many rows go into one statement; few numbers, so that the statements stay prepared."""
_PUTS: Final = {rows: _PUT + ", (?, ?, ?)" * (rows - 1) for rows in _TOGETHER}
_REVISION: Final = "insert or replace into meta (name, value) values ('revision', ?)"


class WriteRefused(StorageError):
    """This write cannot be stored, whatever the state of the store; others can."""


def commit_writes(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
    """Make the writes durable; why each one was not, or None.

    Raises:
        Exception: the transaction can be neither ended nor judged on this connection.
    """
    error = _commit(connection, writes)
    if error is None or len(writes) == 1 or isinstance(error.__cause__, sqlite3.OperationalError):
        return [error] * len(writes)
    return [_commit(connection, (write,)) for write in writes]


def is_kept(connection: sqlite3.Connection, write: Write) -> bool:
    """Whether the database holds ``write``, or a later one of its key.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    try:
        row = connection.execute("select revision from objects where key = ?", (write.key,)).fetchone()
    except UnicodeEncodeError:
        return False
    if row is None:
        return write.value is None
    return bool(row[0] > write.revision or (row[0] == write.revision and write.value is not None))


def stored_facts(connection: sqlite3.Connection) -> dict[str, int]:
    """What the database says of itself: ``format`` and, once something was written, ``revision``.

    Raises:
        sqlite3.Error: it is none of ours.
    """
    facts: dict[str, int] = dict(connection.execute("select name, value from meta"))
    if facts.setdefault("format", FORMAT) == FORMAT:
        connection.execute("insert or ignore into meta (name, value) values ('format', ?)", (FORMAT,))
    return facts


def skip_to_revision(connection: sqlite3.Connection, revision: int) -> None:
    """Let the next write come after ``revision``, as if there had been one.

    Raises:
        sqlite3.Error: it cannot be written.
    """
    connection.execute(_REVISION, (revision,))


def records(connection: sqlite3.Connection) -> Iterator[Record]:
    """Everything that is stored.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    for key, revision, value in connection.execute("select key, revision, value from objects"):
        yield Record(key, revision, value)


def _commit(connection: sqlite3.Connection, writes: Sequence[Write]) -> StorageError | None:
    try:
        connection.execute("begin immediate")
        _write(connection, {write.key: write for write in writes}.values())
        connection.execute(_REVISION, (writes[-1].revision,))
        connection.execute("commit")
    except Exception as error:  # a MemoryError or a key that cannot be bound must end as the failure of these writes
        return _outcome(connection, writes, error)
    return None


def _outcome(connection: sqlite3.Connection, writes: Sequence[Write], error: Exception) -> StorageError | None:
    """End the transaction; the error with which it failed, or None if it had been committed all the same."""
    if connection.in_transaction:
        connection.execute("rollback")
    elif all(is_kept(connection, write) for write in writes):
        return None
    kind = WriteRefused if isinstance(error, (UnicodeError, sqlite3.DataError)) else StorageError
    failure = kind(f"the store could not commit: {str(error) or type(error).__name__}")
    failure.__cause__ = error
    return failure


def _write(connection: sqlite3.Connection, last: Iterable[Write]) -> None:
    """Enter the last write of each key."""
    rows: list[str | int | bytes] = []
    for write in last:
        if write.value is None:
            connection.execute(_REMOVE, (write.key,))
        else:
            rows += (write.key, write.revision, write.value)
    begin = 0
    for together in _TOGETHER:
        while len(rows) - begin >= together * 3:
            connection.execute(_PUTS[together], rows[begin : begin + together * 3])
            begin += together * 3
