"""The default store: SQLite in WAL mode, one writer thread, one fsync for all writes that wait (group commit).

While a commit is on its way to the disk the next writes gather; then they go together. A write is settled when its
transaction is on disk (``synchronous=FULL``), so what was acknowledged survives a kill and a power cut.

The loop and the writer share one interpreter lock, and every step of a statement gives it away and asks for it again.
So they meet as rarely as can be: once per batch, not once per write, and a batch is a handful of statements.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cathedra.apiserver.storage.protocol import Record, Settled, Snapshot, StorageError, Write

__all__ = ["FORMAT", "SQLiteStorage"]

FORMAT: Final = 1
"""Version of the tables; a file of another version is refused."""

_SCHEMA: Final = """
create table if not exists meta (name text primary key, value integer not null) without rowid;
create table if not exists objects (key text primary key, revision integer not null, value blob not null) without rowid;
"""
_PUT: Final = "insert or replace into objects (key, revision, value) values (?, ?, ?)"
_REMOVE: Final = "delete from objects where key = ?"
_TOGETHER: Final = (64, 16, 4, 1)
"""How many rows go into one statement; few numbers, so that the statements stay prepared."""
_PUTS: Final = {rows: _PUT + ", (?, ?, ?)" * (rows - 1) for rows in _TOGETHER}
_REVISION: Final = "insert or replace into meta (name, value) values ('revision', ?)"

_Item = tuple[Write, Settled]


class SQLiteStorage:
    """A file that survives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._waiting: list[_Item] = []
        self._busy = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._healthy = True
        self._connection: sqlite3.Connection | None = None

    @property
    def healthy(self) -> bool:
        """Whether the last transaction could be committed."""
        return self._healthy

    async def load(self) -> Snapshot:
        """Open the file and read it.

        Raises:
            StorageError: it cannot be opened, is no database of ours, or is in use by another process.
        """
        self._loop = asyncio.get_running_loop()
        try:
            connection = self._open()
        except sqlite3.Error as error:
            raise StorageError(_why_not_opened(self._path, error)) from error
        try:
            found = self._check(connection)
        except StorageError:
            connection.close()
            raise
        self._connection = connection
        self._thread = threading.Thread(target=self._write_all, args=(connection,), name="sqlite writer", daemon=True)
        snapshot = Snapshot(found.get("revision", 0), list(_records(connection)))
        self._thread.start()
        return snapshot

    def commit(self, write: Write, settled: Settled) -> None:
        """Queue the write for the next transaction."""
        self._waiting.append((write, settled))
        if not self._busy:
            self._busy = True
            assert self._loop is not None
            # What else is written in this turn of the loop goes along.
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Give the writer what has gathered; it is idle."""
        batch, self._waiting = self._waiting, []
        self._busy = bool(batch)
        if batch:
            self._queue.put(batch)

    async def close(self) -> None:
        """Settle what waits and close the file."""
        if self._thread is None:
            return
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._thread = None

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None, timeout=1.0)
        try:
            connection.execute("pragma locking_mode=exclusive")
            connection.execute("pragma journal_mode=wal")
            connection.execute("pragma synchronous=full")
            connection.execute("pragma wal_autocheckpoint=4000")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> dict[str, int]:
        """What the file says of itself, if it is one of ours."""
        try:
            found: dict[str, int] = dict(connection.execute("select name, value from meta"))
            if found.setdefault("format", FORMAT) != FORMAT:
                raise StorageError(
                    f"{self._path} has format {found['format']}, this version of Cathedra reads format {FORMAT}: "
                    "use another data directory, or the version that wrote it"
                )
            connection.execute("insert or ignore into meta (name, value) values ('format', ?)", (FORMAT,))
        except sqlite3.Error as error:
            raise StorageError(f"{self._path} is a database, but none of Cathedra's: {error}") from error
        return found

    def _write_all(self, connection: sqlite3.Connection) -> None:
        """The writer thread: one transaction per batch."""
        while (batch := self._queue.get()) is not None:
            self._settle(batch, _commit(connection, [write for write, _ in batch]))
        connection.close()

    def _settle(self, batch: list[_Item], error: StorageError | None) -> None:
        def on_loop() -> None:
            self._healthy = error is None
            self._hand_over()
            for _, settled in batch:
                settled(error)

        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(on_loop)


def _why_not_opened(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_BUSY:
        return f"{path} is in use by another process: stop it first, or use another data directory"
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path} is no database of Cathedra's, or is damaged: use another data directory"
    return f"{path} cannot be opened: {error}"


def _commit(connection: sqlite3.Connection, writes: list[Write]) -> StorageError | None:
    try:
        connection.execute("begin immediate")
        _write(connection, {write.key: write for write in writes}.values())
        connection.execute(_REVISION, (writes[-1].revision,))
        connection.execute("commit")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("rollback")
        return StorageError(f"the store could not commit: {error}")
    return None


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


def _records(connection: sqlite3.Connection) -> Iterator[Record]:
    for key, revision, value in connection.execute("select key, revision, value from objects"):
        yield Record(key, revision, value)
