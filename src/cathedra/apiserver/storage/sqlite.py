"""The default store: SQLite in WAL mode, one writer thread, one fsync for all waiting writes (group commit).

While a transaction is synced, the next writes gather and share the next one. If they are few, they wait some turns of
the event loop for those that follow from what was just settled. A write is settled when its transaction is on disk
(``synchronous=FULL``), so what was acknowledged survives a kill and a power cut.

The loop and the writer share one interpreter lock, and every step of a statement releases and reacquires it. So they
meet once per batch, not once per write, and a batch is one row of a log.

A writer that ends by an error is replaced by one with a new connection, which first determines the outcome of the batch
under way. Until then the store is not healthy, and writes fail at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVarTuple

from cathedra.apiserver.storage.compaction import Compaction
from cathedra.apiserver.storage.protocol import Record, Settled, StorageError, StoreContent, Write
from cathedra.apiserver.storage.revisionfile import RevisionFile, StoreInUse
from cathedra.apiserver.storage.transactions import (
    FORMAT,
    DamagedRow,
    WriteRefused,
    check_pages,
    is_kept,
    prepare,
    put_into_log,
    read_log,
    records,
    skip_to_revision,
    stored_facts,
)
from cathedra.files.atomic import sync_directory
from cathedra.files.private import private_directory, private_file
from cathedra.memory import return_freed

_LOG: Final = logging.getLogger(__name__)
_RESTART_SECONDS: Final = 1.0
"""Seconds between two attempts to open the database again."""

DAMAGE_ADVICE: Final = (
    "bring a backup back with cathedra restore, or see what is damaged, and remove it, with cathedra verify"
)
"""Advice for a damaged database."""

RECENT: Final = 1024
"""Writes from before a start that watches can resume after."""
_ENOUGH: Final = 32
"""Writes that are committed without delay. A transaction costs as much as ten more writes in it."""
_TURNS: Final = 5
"""Turns of the event loop for which fewer writes wait after a transaction. A client whose write was settled sends its
next one in the second turn; a client that was waiting for the event, in the third or fourth. So both share a
transaction, instead of taking turns with one each."""

_RELEASED: Final = 64 * 1024 * 1024
"""Bytes of JSON after whose use freed memory is returned to the system; it takes some 10 ms."""

Ts = TypeVarTuple("Ts")
_Item = tuple[Write, Settled]


class LostWrites(StorageError):
    """The database is behind the last acknowledged revision."""

    def __init__(self, path: Path, found: int, acknowledged: int) -> None:
        self.path, self.found, self.acknowledged = path, found, acknowledged
        super().__init__(
            f"{path} holds revision {found}, but revision {acknowledged} was acknowledged: the file was emptied or "
            f"replaced, or its write-ahead log {path.name}-wal was removed. Restore the files or a backup, or start "
            f"once with --accept-lost-writes {acknowledged} to go on without what is missing"
        )


class SQLiteStorage:
    """A `Storage` in a SQLite file, held by this process alone."""

    def __init__(self, path: Path, *, accept_lost_writes: int | None = None) -> None:
        """``accept_lost_writes``: the acknowledged revision without which the database may be opened all the same. The
        next write is numbered after it, so that no revision ever means two states."""
        self._path = path
        self._accepted = accept_lost_writes
        self._queue: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._waiting: list[_Item] = []
        self._under_way: list[_Item] = []
        self._busy = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._healthy = True
        self._connection: sqlite3.Connection | None = None
        self._last: RevisionFile | None = None

    @property
    def healthy(self) -> bool:
        """Return True if there is a writer, and its last transaction was committed or failed because of its own
        write."""
        return self._healthy

    async def load(self) -> StoreContent:
        """Open the file and read it.

        Raises:
            LostWrites: it is behind what was acknowledged.
            StorageError: it cannot be opened, is no database of ours, or is in use by another process.
        """
        self._loop = asyncio.get_running_loop()
        last = self._last = self._locked()
        try:
            connection, revision = self._opened(last)
            # Before anything is served: damage that is found later would already have been answered to clients.
            check_pages(connection)
            content = read_log(connection, RECENT)
            compaction = Compaction(connection, content.records)
        except sqlite3.Error as error:
            self._let_go()
            raise StorageError(_why_not_opened(self._path, error)) from error
        except DamagedRow as error:
            self._let_go()
            raise StorageError(f"{self._path}: {error}; {DAMAGE_ADVICE}") from error
        # Also on cancellation: a lock that is kept would make the next start report the database as in use.
        except BaseException:
            self._let_go()
            raise
        self._start(connection, compaction)
        found = _released(list(content.records))
        if content.revision != revision:
            # What clients saw at the revisions in between is not here: they have to list again.
            return StoreContent(revision, found)
        return StoreContent(revision, found, content.recent, content.recent_after)

    def commit(self, write: Write, settled: Settled) -> None:
        """Queue the write for the next transaction."""
        # Refused and not queued. Without a database the queue would grow without bound, and every client would run into
        # its timeout.
        if self._restart is not None:
            settled(StorageError("the store cannot be written now: its database cannot be opened"))
            return
        self._waiting.append((write, settled))
        if not self._busy:
            self._busy = True
            assert self._loop is not None
            # What else is written in this turn of the loop goes along.
            self._loop.call_soon(self._hand_over)

    async def backup(self, target: Path) -> int:
        """Write a consistent copy of the database to ``target`` while the store works. Return the copy's revision.

        The copy is a database of its own, for this user alone, and is on disk on return.

        Raises:
            StorageError: it cannot be written; there is no ``target`` then, or the one that was there before.
        """
        try:
            return await asyncio.to_thread(copy_database, self._path, target)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"the store could not be copied to {target}: {error}") from error

    async def close(self) -> None:
        """Settle waiting writes and close the file."""
        if self._thread is None or self._last is None:
            return
        # Before the writer ends, or its end would be taken for a failure and a new one be started.
        self._closing = True
        if self._restart is not None:
            self._restart.cancel()
        batch, self._waiting = self._waiting, []
        self._under_way += batch
        # The last batch precedes the end mark, so that writes that were accepted are still committed.
        self._queue.put(batch)
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._thread = None
        self._fail(self._under_way, StorageError("the store was closed"))
        # The note is synced at the end only. After a crash an older note is safe; it just recognises fewer losses.
        self._last.sync()
        self._let_go()

    def _hand_over(self) -> None:
        """Give the idle writer the writes that have gathered."""
        batch, self._waiting = self._waiting, []
        self._busy = bool(batch)
        if batch:
            self._under_way += batch
            self._queue.put(batch)

    def _locked(self) -> RevisionFile:
        """Return the file of the last revision, whose lock keeps other processes out. All files are made private.

        Raises:
            StorageError: they cannot be used, or another process uses them.
        """
        last: RevisionFile | None = None
        try:
            private_directory(self._path.parent)
            last = RevisionFile(self._path.with_name(f"{self._path.name}.revision"))
            # All of them hold objects, secrets among them. Created with the default mask they would be readable by
            # other users.
            for suffix in ("", "-wal", "-shm", ".revision"):
                private_file(self._path.with_name(self._path.name + suffix))
        except StoreInUse as error:
            raise StorageError(
                f"{self._path} is in use by another process: stop it first, or use another data directory"
            ) from error
        except OSError as error:
            if last is not None:
                last.close()
            raise StorageError(f"{self._path} cannot be used: {error.strerror or error}") from error
        return last

    def _opened(self, last: RevisionFile) -> tuple[sqlite3.Connection, int]:
        """Return a connection, and the revision to continue from.

        Raises:
            StorageError, sqlite3.Error: the database cannot be opened or must not be used.
        """
        connection = self._open()
        try:
            revision = self._check(connection, last)
        # A connection that is not closed keeps the write-ahead log open until it is collected.
        except BaseException:
            connection.close()
            raise
        return connection, revision

    def _open(self) -> sqlite3.Connection:
        # SQLite gives the files beside it the permissions of the database.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None, timeout=5.0)
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection, last: RevisionFile) -> int:
        """Return the revision to continue from, if the file is a complete database of Cathedra."""
        try:
            facts = stored_facts(connection)
        except sqlite3.Error as error:
            raise StorageError(f"{self._path} is a database, but none of Cathedra's: {error}") from error
        if facts["format"] != FORMAT:
            raise StorageError(
                f"{self._path} has format {facts['format']}, this version of Cathedra reads format {FORMAT}: "
                "use another data directory, or the version that wrote it"
            )
        # A restored older file would number new writes with revisions that clients have already seen, and their caches
        # would take old states for new ones. Therefore it is refused.
        found, acknowledged = facts["revision"], last.read()
        if found < acknowledged and self._accepted != acknowledged:
            raise LostWrites(self._path, found, acknowledged)
        put_into_log(connection)
        if found < acknowledged:
            skip_to_revision(connection, acknowledged)
        return max(found, acknowledged)

    def _start(self, connection: sqlite3.Connection, compaction: Compaction) -> None:
        self._connection = connection
        self._thread = threading.Thread(
            target=self._write_all, args=(connection, compaction), name="sqlite writer", daemon=True
        )
        self._thread.start()

    def _write_all(self, connection: sqlite3.Connection, compaction: Compaction) -> None:
        """Run the writer thread: one transaction per batch."""
        try:
            while (batch := self._queue.get()) is not None:
                writes = [write for write, _ in batch]
                errors = compaction.commit(writes)
                settled = _settled(writes, errors)
                # After the commit and before any client learns of it: the note is never ahead of the database, and a
                # database behind it has lost acknowledged writes.
                self._note(settled)
                self._on_loop(self._settle, batch, errors)
                compaction.follow(settled)
        except BaseException as error:
            _LOG.error("the store's writer ended and is started again: %r", error)
        finally:
            connection.close()
            self._on_loop(self._writer_ended)

    def _note(self, settled: list[Write]) -> None:
        if settled and self._last is not None:
            try:
                self._last.note(settled[-1].revision)
            except OSError as error:
                # The writes are durable. An older note recognises fewer losses, but never a wrong one.
                _LOG.warning("%s: %s", self._last.path, error)

    def _on_loop(self, function: Callable[[*Ts], None], *arguments: *Ts) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _settle(self, batch: list[_Item], errors: list[StorageError | None]) -> None:
        # A write that SQLite refuses because of its size or content is its author's error, and no reason to restart the
        # server.
        self._note_health(next((one for one in filter(None, errors) if not isinstance(one, WriteRefused)), None))
        # Batches settle in the order in which they were handed over, so the first ones are these.
        del self._under_way[: len(batch)]
        if len(self._waiting) >= _ENOUGH:
            self._hand_over()
        else:
            assert self._loop is not None
            soon: Callable[..., object] = self._loop.call_soon
            # Each turn schedules the rest for the next one, without a step of Python.
            soon(*[soon] * (_TURNS - 1), self._hand_over)
        _tell(batch, errors)

    def _note_health(self, problem: StorageError | None) -> None:
        """Note whether the last transaction was committed. Log changes alone: clients repeat their writes."""
        healthy = problem is None
        if healthy is not self._healthy:
            if problem is not None:
                _LOG.error("no write can be stored in %s: %s", self._path, problem)
            else:
                _LOG.warning("writes are stored in %s again", self._path)
        self._healthy = healthy

    def _writer_ended(self) -> None:
        """Start another writer, unless the store is being closed."""
        tried = self._restart is not None
        self._restart = None
        if self._closing or self._last is None or self._loop is None:
            return
        self._healthy = False
        try:
            connection, _ = self._opened(self._last)
            compaction = Compaction(connection, records(connection))
            # The writer may have ended between the commit and the report. Reporting a durable write as failed would let
            # its client create the object a second time.
            kept = [is_kept(connection, write) for write, _ in self._under_way]
        except (sqlite3.Error, StorageError, OSError) as error:
            # Once, not each second.
            if not tried:
                _LOG.error("the store cannot be opened again, which is tried each second: %s", error)
            waiting, self._waiting = self._waiting, []
            self._restart = self._loop.call_later(_RESTART_SECONDS, self._writer_ended)
            self._fail(waiting, StorageError(f"the store cannot be written now: {error}"))
            return
        # A new queue: batches in the old one are in ``_under_way`` as well, and would be committed twice.
        self._queue = queue.SimpleQueue()
        self._start(connection, compaction)
        batch = list(self._under_way)
        lost = StorageError("the store could not commit: its writer ended")
        errors = [None if one else lost for one in kept]
        self._note(_settled([write for write, _ in batch], errors))
        self._settle(batch, errors)
        self._note_health(None)

    def _fail(self, items: list[_Item], error: StorageError) -> None:
        _tell(items, [error] * len(items))

    def _let_go(self) -> None:
        if self._last is not None:
            self._last.close()
            self._last = None


def _released(records: list[Record]) -> Iterator[Record]:
    """Yield the records in their order, and release the memory of each after its use.

    A store of 100,000 pods has 500 MB of JSON. The objects that are decoded from it take as much again.
    """
    records.reverse()
    released = 0
    while records:
        record = records.pop()
        released += len(record.value)
        yield record
        del record
        # Objects are not allocated where JSON was, so freed memory has to be returned in between.
        if released > _RELEASED:
            released = 0
            return_freed()


def _settled(writes: list[Write], errors: list[StorageError | None]) -> list[Write]:
    """Return the writes that had no error; nearly every batch is settled as a whole."""
    return [write for write, error in zip(writes, errors, strict=True) if error is None] if any(errors) else writes


def _tell(batch: Sequence[_Item], errors: Sequence[StorageError | None]) -> None:
    for (_, settled), error in zip(batch, errors, strict=True):
        try:
            settled(error)
        except Exception:  # one writer's callback must not keep the others of its batch waiting for ever
            _LOG.exception("a settled write could not be entered")


def _why_not_opened(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_BUSY:
        return f"{path} is in use by another process: stop it first, or use another data directory"
    if code == sqlite3.SQLITE_NOTADB:
        return f"{path} is no database of Cathedra's, or is damaged: use another data directory"
    if code is None or code & 0xFF == sqlite3.SQLITE_CORRUPT:
        return f"{path} is damaged ({error}); {DAMAGE_ADVICE}"
    return f"{path} cannot be opened: {error}"


def copy_database(source: Path, target: Path) -> int:
    """Copy a database in one read transaction, so that writers need not wait. Return the revision of the copy.

    On return the copy is on disk, readable by this user alone.

    Raises:
        sqlite3.Error, OSError: it cannot be made; ``target`` is as it was.
    """
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        reader, copy = sqlite3.connect(source, timeout=5.0), sqlite3.connect(temporary)
        try:
            # In one step. In several, each write in between would start the copy again from its beginning.
            reader.backup(copy, pages=-1)
            # One file: opening the copy needs no log beside it.
            copy.execute("pragma journal_mode=delete")
            revision = stored_facts(copy)["revision"]
        finally:
            copy.close()
            reader.close()
        descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Before the rename: otherwise a power cut could leave the new name with an empty file in place of the
            # former backup.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # The rename itself is durable only when the directory is.
    sync_directory(target.parent)
    return revision
