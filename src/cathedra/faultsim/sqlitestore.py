"""Store of a simulated API server on the real SQLite, over files whose faults a plan decides.

What the product's store does to its database is done here by the same functions: the log's rows, compaction, the
judgement of a failed transaction. Left out are its thread and its queue, which virtual time does not have. Each life of
a server ends like a power failure, in the middle of the transaction under way.

After a start the database is compared with every write that was acknowledged. A transaction that was under way, or that
failed, may be in it or not, but whole: a log of SQLite that could not be synced can still be there after a start.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from cathedra.apiserver.storage.compaction import Compaction
from cathedra.apiserver.storage.protocol import Settled, StorageError, StoreContent, Write
from cathedra.apiserver.storage.transactions import (
    DamagedRow,
    batch_of,
    check_pages,
    is_kept,
    prepare,
    read_log,
    records,
    rows,
    stored_facts,
)
from cathedra.faultsim.sqlitefiles import FilesVFS, PlayedFiles
from cathedra.faultsim.stores import RECENT, Disk, DiskStore, Observer

_NAME: Final = "store.db"
_CHECKPOINT: Final = 40
"""Pages after which SQLite empties its log: small, so that checkpoints meet faults too."""
_KEPT: Final = 64 * 1024
_PART: Final = 16 * 1024
"""Bytes of `Compaction`, small for the same reason."""
_STEPS: Final = 40
"""Writes and syncs of a transaction within which the power fails, at most."""


class SQLiteDisk(Disk):
    """The medium of a server whose store is SQLite."""

    def __init__(self, random: Random, observer: Observer, broken: Callable[[str], None]) -> None:
        """``broken`` is called if a start finds something else than what was acknowledged."""
        self.files = PlayedFiles(random)
        self.vfs = FilesVFS(self.files)
        self.uncertain: list[Sequence[Write]] = []
        """Transactions that a start may find or not: under way, or failed."""
        self.broken = broken
        super().__init__(random, observer)

    @property
    def full(self) -> bool:
        """True if no file can grow."""
        return self.files.full

    @full.setter
    def full(self, value: bool) -> None:
        self.files.full = value

    @property
    def failing_syncs(self) -> float:
        """Share of syncs that fail."""
        return self.files.failing_syncs

    @failing_syncs.setter
    def failing_syncs(self, value: float) -> None:
        self.files.failing_syncs = value

    def connect(self) -> sqlite3.Connection:
        """Open the database.

        Raises:
            sqlite3.Error: it cannot be opened.
        """
        connection = self.vfs.connect(_NAME)
        try:
            prepare(connection)
            connection.execute(f"pragma wal_autocheckpoint={_CHECKPOINT}")
            stored_facts(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def compare(self, connection: sqlite3.Connection) -> None:
        """Compare what a start finds with what was acknowledged, and take in what else is there."""
        try:
            check_pages(connection)
            # Not `is_kept`: a later write of the same key would count for an earlier one that failed.
            stored = {(write.key, write.revision) for row in rows(connection) for write in batch_of(row)}
            for writes in self.uncertain:
                if (writes[-1].key, writes[-1].revision) in stored:
                    for write in writes:
                        self.keep(write)
            found = {record.key: (record.revision, record.value) for record in records(connection)}
        except (sqlite3.DatabaseError, DamagedRow) as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            self.broken(f"the database is damaged: {error}")
            return
        self.uncertain = []
        wanted = {key: (record.revision, record.value) for key, record in self.records.items()}
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                here, there = (one.get(key, (0, b""))[0] for one in (found, wanted))
                self.broken(f"{key} was acknowledged at {there} and is at {here} after the start (0: it is not there)")
                return


class SQLiteStore(DiskStore):
    """A `Storage` on a `SQLiteDisk`, for one life of a server."""

    def __init__(self, disk: SQLiteDisk) -> None:
        super().__init__(disk)
        self._files = disk
        self._connection: sqlite3.Connection | None = None
        self._compaction: Compaction | None = None

    async def load(self) -> StoreContent:
        """Open the database, and return what is in it.

        Raises:
            StorageError: it cannot be opened.
        """
        try:
            self._open_database()
            assert self._connection is not None
            self._files.compare(self._connection)
            return read_log(self._connection, RECENT)
        except sqlite3.Error as error:
            raise StorageError(f"the database cannot be opened: {error}") from error

    def die(self) -> None:
        """Lose power at some step of the transaction under way; nothing of it is acknowledged."""
        items = self._taken()
        self._alive = False
        files = self._files.files
        if self._compaction is not None and items:
            files.left = files.random.randint(1, _STEPS)
            writes = [write for write, _ in items]
            self._files.uncertain.append(writes)
            # No error reaches a process that dies.
            with contextlib.suppress(sqlite3.Error, StorageError):
                self._compaction.commit(writes)
        # Before the connection is closed: its last act would be a checkpoint.
        files.left = 0
        self._close_database()
        files.lose_power()
        for _, settled in items:
            settled(StorageError("the server has died"))

    async def close(self) -> None:
        """Settle pending writes, and close the database."""
        await super().close()
        self._close_database()

    def _sync(self) -> None:
        items = self._taken()
        writes = [write for write, _ in items]
        errors = self._committed(writes)
        self._healthy = not any(errors)
        lost = [write for write, error in zip(writes, errors, strict=True) if error is not None]
        # A transaction that was committed has taken the place of failed ones in SQLite's log.
        self._files.uncertain = [*self._files.uncertain, lost] if lost else []
        for (write, settled), error in zip(items, errors, strict=True):
            if error is None:
                self._files.keep(write)
            settled(error)
        if self._compaction is not None:
            self._compaction.follow([write for write, error in zip(writes, errors, strict=True) if error is None])

    def _committed(self, writes: Sequence[Write]) -> Sequence[StorageError | None]:
        """Commit, and return the errors. A connection that cannot go on is replaced, as the product's writer is."""
        try:
            if self._compaction is None:
                self._open_database()
            assert self._compaction is not None
            return self._compaction.commit(writes)
        except (sqlite3.Error, StorageError) as failure:
            problem = StorageError(f"the store could not commit: {failure}")
        self._close_database()
        try:
            self._open_database()
            assert self._connection is not None
            kept = [is_kept(self._connection, write) for write in writes]
        except (sqlite3.Error, StorageError):
            self._close_database()
            return [problem] * len(writes)
        return [None if one else problem for one in kept]

    def _open_database(self) -> None:
        self._connection = self._files.connect()
        self._compaction = Compaction(self._connection, records(self._connection), kept=_KEPT, part=_PART)

    def _close_database(self) -> None:
        connection, self._connection, self._compaction = self._connection, None, None
        if connection is not None:
            connection.close()

    def _taken(self) -> list[tuple[Write, Settled]]:
        """Take over what waits to be committed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        turns, self._turns = self._turns, []
        # The next write of this turn of the loop must not join a transaction that is settled.
        self._open = False
        return [item for turn in turns for item in turn]
