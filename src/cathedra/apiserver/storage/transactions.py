"""Transactions on the SQLite database: its tables, one transaction per batch of writes, and what became of each write.

Every statement gives the interpreter away and has to get it back from a loop that is busy. So a batch is one statement,
which is a transaction of its own, wherever nothing is removed.

A batch fails or succeeds as one. If it fails for a reason that lies in one of its writes (a key that is no UTF-8, a
value that is too big), or for want of memory, each write is tried alone, so that only the bad one fails.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Sequence
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

FORMAT: Final = 2
"""Version of the tables; a file of another version is refused, but for the former one."""
_FORMER: Final = 1
"""In which ``revision`` was written with every batch, and not only with those that remove something."""

SCHEMA: Final = """
create table if not exists meta (name text primary key, value integer not null) without rowid;
create table if not exists objects (key text primary key, revision integer not null, value blob not null) without rowid;
"""
_PUT: Final = "insert or replace into objects (key, revision, value) values (?, ?, ?)"
_REMOVE: Final = "delete from objects where key in (?"
_TOGETHER: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""How many rows a statement may have; few numbers, so that the statements stay prepared. The last row fills it up."""
_MOST: Final = _TOGETHER[-1]
_PUTS: Final = {rows: _PUT + ", (?, ?, ?)" * (rows - 1) for rows in _TOGETHER}
_REMOVES: Final = {rows: _REMOVE + ", ?" * (rows - 1) + ")" for rows in _TOGETHER}
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
    """What the database says of itself: ``format``, and ``revision``, the last that was committed (0: none).

    A database without a format, or with the former one, has this version's from now on.

    Raises:
        sqlite3.Error: it is none of ours.
    """
    facts: dict[str, int] = dict(connection.execute("select name, value from meta"))
    if facts.get("format", _FORMER) == _FORMER:
        connection.execute("insert or replace into meta (name, value) values ('format', ?)", (FORMAT,))
        facts["format"] = FORMAT
    (last,) = connection.execute("select max(revision) from objects").fetchone()
    facts["revision"] = max(facts.get("revision", 0), last or 0)
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
    last = {write.key: write for write in writes}.values()
    put = [write for write in last if write.value is not None]
    try:
        if len(put) == len(last) <= _MOST:
            _put(connection, put)
            return None
        connection.execute("begin immediate")
        _remove(connection, [write.key for write in last if write.value is None])
        for begin in range(0, len(put), _MOST):
            _put(connection, put[begin : begin + _MOST])
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


def _put(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
    rows = [value for write in writes for value in (write.key, write.revision, write.value)]
    together = _TOGETHER[bisect_left(_TOGETHER, len(writes))]
    connection.execute(_PUTS[together], rows + rows[-3:] * (together - len(writes)))


def _remove(connection: sqlite3.Connection, keys: Sequence[str]) -> None:
    for begin in range(0, len(keys), _MOST):
        some = keys[begin : begin + _MOST]
        together = _TOGETHER[bisect_left(_TOGETHER, len(some))]
        connection.execute(_REMOVES[together], (*some, *[some[-1]] * (together - len(some))))
