"""Transactions on the SQLite database: its tables, one row per batch of writes, and the outcome of each write.

Every statement releases the interpreter lock and has to reacquire it from a busy loop, and a row of its own for each
object costs twenty times what its bytes cost. So a batch is one row of a log, written by one statement that is a
transaction of its own, and the log is all there is (`cathedra.apiserver.storage.compaction` keeps it short).

A batch fails or succeeds as one. If it fails for a reason that lies in one of its writes (a key that is no UTF-8, a
value that is too big), or for want of memory, each write is tried alone, so that only the bad one fails.

SQLite does not notice a flipped bit within a value. So each row carries a checksum over its revision and its writes,
which is compared whenever the row is read: a changed object is an error and never an answer.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from cathedra.apiserver.storage.protocol import PastWrite, Record, StorageError, StoreContent, Write

FORMAT: Final = 3
"""Version of the tables; a file of another version is refused, but for former ones."""
_FORMER: Final = frozenset({1, 2})
"""Without a log. In the first, ``revision`` was written with every batch, and not only where something is skipped."""

SCHEMA: Final = """
create table if not exists meta (name text primary key, value integer not null) without rowid;
create table if not exists batches (revision integer primary key, writes blob not null, checksum integer);
"""
"""``batches`` has the last revision of each batch and its writes, as msgpack. In a batch there may be earlier writes as
well, which came first once. Rows of earlier versions have no checksum."""
_APPEND: Final = "insert into batches (revision, writes, checksum) values (?, ?, ?)"
_SELECT: Final = "select revision, writes, checksum from batches"
_REVISION: Final = "insert or replace into meta (name, value) values ('revision', ?)"
_LARGEST: Final = 256 * 1024 * 1024
"""Bytes of values in one row, about; SQLite takes a thousand million."""
_FEW: Final = 128
"""Writes whose values are never that large together: an object has 1.5 MB at most."""

_PAGE: Final = 8192
"""Bytes of a page, in new databases. In pages of half the size an object of 1 KB and more needs a second page."""
_CHUNK: Final = 8 * 1024 * 1024
"""Bytes of values in one row of what was a table of objects."""

_BUFFERED: Final = 1024 * 1024
"""Bytes of a batch whose buffer is kept for the next one."""

_encode_batch: Final = msgspec.msgpack.Encoder().encode
_encode_batch_into: Final = msgspec.msgpack.Encoder().encode_into
_decode_batch: Final = msgspec.msgpack.Decoder(list[Write]).decode


Row = tuple[int, bytes, int | None]
"""Revision, writes and checksum of a batch."""


class _Buffer(threading.local):
    """The buffer in which a thread encodes its batches: a new one would grow, and be copied, several times a batch."""

    def __init__(self) -> None:
        self.batch = bytearray()


_BUFFER: Final = _Buffer()


class DamagedRow(StorageError):
    """A row of the log differs from the row that was written."""

    def __init__(self, revision: int, problem: str) -> None:
        self.revision = revision
        super().__init__(f"the row of revision {revision} is damaged: {problem}")


class WriteRefused(StorageError):
    """This write cannot be stored in any state of the store; others can."""


def prepare(connection: sqlite3.Connection) -> None:
    """Set how the connection writes, and make the tables if they are missing.

    Raises:
        sqlite3.Error: it is no database, or cannot be written.
    """
    connection.execute(f"pragma page_size={_PAGE}")
    connection.execute("pragma journal_mode=wal")
    # WAL mode would also permit "normal", which syncs at checkpoints only: a power cut could then lose writes that
    # clients saw acknowledged.
    connection.execute("pragma synchronous=full")
    # In pages. A longer log makes each read slower, a shorter one makes the writer stop for checkpoints more often.
    connection.execute("pragma wal_autocheckpoint=2000")
    connection.executescript(SCHEMA)


def commit_writes(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
    """Make the writes durable. Return the error of each one, or None.

    Raises:
        Exception: the transaction can be neither ended nor judged on this connection.
    """
    if len(writes) > _FEW and sum([len(write.value or b"") for write in writes]) > _LARGEST:
        # SQLite refuses a value beyond its limit, and so all writes of a batch for the sum of their sizes.
        half = len(writes) // 2
        return commit_writes(connection, writes[:half]) + commit_writes(connection, writes[half:])
    error = commit_batch(connection, writes)
    if error is None or len(writes) == 1 or isinstance(error.__cause__, sqlite3.OperationalError):
        return [error] * len(writes)
    # One write that cannot be stored must not fail the others that happened to share its row.
    return [commit_batch(connection, (write,)) for write in writes]


def commit_batch(connection: sqlite3.Connection, writes: Sequence[Write]) -> StorageError | None:
    """Make the writes durable as one row. Return the error, or None.

    Raises:
        Exception: the transaction can be neither ended nor judged on this connection.
    """
    try:
        _append(connection, writes)
    except Exception as error:  # a MemoryError or a key that cannot be bound must end as the failure of these writes
        return _outcome(connection, writes, error)
    return None


def is_kept(connection: sqlite3.Connection, write: Write) -> bool:
    """Return True if the database holds ``write``, or a later one of its key.

    Raises:
        sqlite3.Error: it cannot be read.
        DamagedRow: a row is not what was written.
    """
    try:
        # Later rows too: a compaction may have carried the write into one of them.
        later = connection.execute(f"{_SELECT} where revision >= ?", (write.revision,))
        batches = [batch_of(row) for row in later]
    # A revision beyond 64 bits was never written.
    except OverflowError:
        return False
    return any(found.key == write.key and found.revision >= write.revision for batch in batches for found in batch)


def batch_of(row: Row) -> list[Write]:
    """Return the writes of a batch, in their order.

    Raises:
        DamagedRow: the row is not what was written.
    """
    revision, writes, checksum = row
    # The revision is part of the checksum: a row that SQLite delivers under another one is damage as well.
    if checksum is not None and checksum != _checksum(revision, writes):
        raise DamagedRow(revision, "its checksum is wrong")
    try:
        return _decode_batch(writes)
    except (msgspec.DecodeError, UnicodeError, TypeError) as error:
        raise DamagedRow(revision, str(error)) from error


def rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """Return the rows of the log in their order, as they are; `batch_of` checks them.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    return iter(connection.execute(f"{_SELECT} order by revision"))


def next_row(connection: sqlite3.Connection, after: int, before: int) -> Row | None:
    """Return the first row between two revisions, None if there is none.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    row: Row | None = connection.execute(
        f"{_SELECT} where revision > ? and revision < ? order by revision limit 1", (after, before)
    ).fetchone()
    return row


def stored_facts(connection: sqlite3.Connection) -> dict[str, int]:
    """Return ``format`` and ``revision`` of the database; the latter is the last that was committed (0: none).

    A database without a format, or with a former one, has this version's from now on.

    Raises:
        sqlite3.Error: it is none of ours.
    """
    _add_checksums(connection)
    facts: dict[str, int] = dict(connection.execute("select name, value from meta"))
    # The schema is written before the format: a crash in between leaves a former database, which is converted again.
    if facts.get("format", 1) in _FORMER:
        connection.executescript(SCHEMA)
        connection.execute("insert or replace into meta (name, value) values ('format', ?)", (FORMAT,))
        facts["format"] = FORMAT
    if facts["format"] == FORMAT:
        tables = ("batches", "objects") if _has_objects(connection) else ("batches",)
        # The last row may carry an older number than what was skipped to, so the greatest of both counts.
        last = [connection.execute(f"select max(revision) from {table}").fetchone()[0] or 0 for table in tables]
        facts["revision"] = max(facts.get("revision", 0), *last)
    return facts


def check_pages(connection: sqlite3.Connection) -> None:
    """Check that every page and every row is where it belongs. It takes some 20 ms for 40 MB.

    Raises:
        sqlite3.DatabaseError: one is not; the text names it.
    """
    (verdict,) = connection.execute("pragma quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def put_into_log(connection: sqlite3.Connection) -> None:
    """Move the rows of a table of objects, as former versions had it, to the beginning of the log. Do nothing if there
    is none.

    Raises:
        sqlite3.Error: it cannot be written; everything is as it was.
    """
    if not _has_objects(connection):
        return
    revision = stored_facts(connection)["revision"]
    # One transaction: a crash leaves either the table of objects or the log, never parts of both.
    connection.execute("begin immediate")
    try:
        (first,) = connection.execute("select min(1, coalesce(min(revision), 1)) from batches").fetchone()
        objects = connection.execute("select key, revision, value from objects").fetchall()
        while objects:
            # Rows of bounded size, so that the conversion of a large database does not need its size in memory twice.
            chunk, size = [], 0
            while objects and size < _CHUNK:
                chunk.append(objects.pop())
                size += len(chunk[-1][2])
            first -= 1
            batch = _encode_batch(chunk)
            connection.execute(_APPEND, (first, batch, _checksum(first, batch)))
        connection.execute("drop table objects")
        skip_to_revision(connection, revision)
        connection.execute("commit")
    # Cancellation too: an open transaction would block every later writer.
    except BaseException:
        connection.execute("rollback")
        raise


def skip_to_revision(connection: sqlite3.Connection, revision: int) -> None:
    """Set the stored revision to ``revision``, so that the next write gets a later one.

    Raises:
        sqlite3.Error: it cannot be written.
    """
    connection.execute(_REVISION, (revision,))


def records(connection: sqlite3.Connection) -> Iterable[Record]:
    """Return everything that is stored. `put_into_log` must have been called.

    Raises:
        sqlite3.Error: it cannot be read.
        DamagedRow: a row is not what was written.
    """
    return read_log(connection, 0).records


def read_log(connection: sqlite3.Connection, limit: int) -> StoreContent:
    """Return everything that is stored, with up to ``limit`` of the last writes.

    The log's first row may follow rows that were removed, so the history begins behind it. Writes of a row that are
    not later than the row before it were carried there by a compaction, and are no new ones.

    Raises:
        sqlite3.Error: it cannot be read.
        DamagedRow: a row is not what was written.
    """
    found: dict[str, Record] = {}
    recent: deque[PastWrite] = deque(maxlen=limit)
    after = last = None
    for row in rows(connection):
        for write in batch_of(row):
            # The state before each write is needed for watches that resume: they see deletions with the last state.
            before = found.pop(write.key, None) if write.value is None else found.get(write.key)
            if write.value is not None:
                found[write.key] = Record(write.key, write.revision, write.value)
            # Writes that a compaction carried along are older than the row before, and were counted when they were new.
            if limit and last is not None and write.revision > last:
                if len(recent) == limit:
                    after = recent[0].write.revision
                recent.append(PastWrite(write, before))
        last, _, _ = row
        after = last if after is None else after
    return StoreContent(last or 0, found.values(), recent, after)


def _has_objects(connection: sqlite3.Connection) -> bool:
    return connection.execute("select 1 from sqlite_master where name = 'objects'").fetchone() is not None


def _outcome(connection: sqlite3.Connection, writes: Sequence[Write], error: Exception) -> StorageError | None:
    """End the transaction. Return the error with which it failed, or None if it was committed nevertheless."""
    # Still open means that nothing was committed; otherwise the commit may have succeeded before the error.
    if connection.in_transaction:
        connection.execute("rollback")
    elif is_kept(connection, writes[-1]):  # and so is the row, or nothing of it
        return None
    kind = WriteRefused if isinstance(error, (UnicodeError, sqlite3.DataError)) else StorageError
    failure = kind(f"the store could not commit: {str(error) or type(error).__name__}")
    failure.__cause__ = error
    return failure


def _append(connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
    revision, batch = writes[-1].revision, _BUFFER.batch
    _encode_batch_into(writes, batch)
    connection.execute(_APPEND, (revision, batch, _checksum(revision, batch)))
    if len(batch) > _BUFFERED:
        batch.clear()


def _checksum(revision: int, batch: bytes | bytearray) -> int:
    # The first value of the checksum has 32 bits; revisions beyond that count with their lower half.
    return zlib.crc32(batch, revision & 0xFFFFFFFF)


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Give a log of an earlier version the column for checksums; its rows have none."""
    columns = [name for (name,) in connection.execute("select name from pragma_table_info('batches')")]
    if columns and "checksum" not in columns:
        connection.execute("alter table batches add column checksum integer")
