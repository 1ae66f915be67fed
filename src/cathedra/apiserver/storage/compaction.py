"""Compaction of the log of the SQLite database: its oldest rows are removed, so that it stays near the stored size.

Most writes are superseded: a pod that starts is written six times, its events are removed within the hour. When the
outdated part of the log exceeds the current part, the oldest rows are read again, current writes in them are appended
with the next batch, and the rows are removed. Where nothing is outdated, nothing is rewritten. A table with a row for
each object would cost the writer, and the loop that it shares the interpreter lock with, many times the object's bytes.

A kill in between leaves the old rows in place: their current writes are then in the log twice, with one revision.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from cathedra.apiserver.storage.protocol import Record, StorageError, Write
from cathedra.apiserver.storage.transactions import DamagedRow, batch_of, commit_batch, commit_writes, next_row

_LOG: Final = logging.getLogger(__name__)
_KEPT: Final = 32 * 1024 * 1024
"""Outdated bytes that are tolerated beyond the size of the current part; a start reads them in some 50 ms."""
_PART: Final = 4 * 1024 * 1024
"""Bytes that are removed together, which takes some 2 ms."""
_PACE: Final = 2
"""Bytes that are read again for each byte that is written. More than one, so that compaction ends under load."""
_HEAD: Final = 80
"""Bytes of a write beside its value, about: most are its key."""
_BEGINNING: Final = -(2**63)


_Latest = tuple[int, int]
"""Revision and size of the last write of an object."""
_NEVER_WRITTEN: Final[_Latest] = 0, 0


class Compaction:
    """The sizes of the writes in a log, and the revisions of the current ones."""

    def __init__(
        self, connection: sqlite3.Connection, found: Iterable[Record], *, kept: int = _KEPT, part: int = _PART
    ) -> None:
        """``found`` are the current objects in the database.

        Raises:
            sqlite3.Error: it cannot be read.
            DamagedRow: a row of ``found`` is not what was written.
        """
        (length,) = connection.execute("select total(length(writes)) from batches").fetchone()
        self._connection = connection
        self._kept = kept
        self._part = part
        self._length = int(length)
        self._latest = {record.key: (record.revision, _size(record.value)) for record in found}
        self._holding = sum([size for _, size in self._latest.values()])
        self._read_to = _BEGINNING
        """The last row that has been read again."""
        self._read = 0
        """Bytes of the rows up to there."""
        self._carried: list[Write] = []
        """Current writes of these rows, to be appended with the next batch."""
        self._paused_to = 0
        """The length that the log has to reach before anything is tried again."""

    def commit(self, writes: Sequence[Write]) -> list[StorageError | None]:
        """Commit the writes and those to be carried along. If that fails, the latter stay where they are.

        Raises:
            Exception: the transaction can be neither ended nor judged on this connection.
        """
        if not writes:
            return []
        carried, self._carried = self._carried, []
        if not carried:
            return commit_writes(self._connection, writes)
        if commit_batch(self._connection, [*carried, *writes]) is None:
            self._length += sum([_size(write.value) for write in carried])
            return [None] * len(writes)
        self._begin_again()
        return commit_writes(self._connection, writes)

    def follow(self, settled: Sequence[Write]) -> None:
        """Count committed writes, and compact if the log is too long.

        An error is logged, and compaction is tried again when the log has grown by another part.
        """
        if not settled:
            return
        written = self._enter(settled)
        try:
            # Removed in parts, because each removal holds the writer for its duration.
            if self._read >= self._part:
                self._remove()
            if self._length > max(2 * self._holding + self._kept, self._paused_to):
                self._read_again(settled[-1].revision, _PACE * written)
        except (sqlite3.Error, DamagedRow) as error:
            _LOG.warning("the beginning of the store's log could not be removed: %s", error)
            # An open transaction would take the next batch into itself, and its failure would undo acknowledged writes.
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            self._begin_again()
            # A damaged row would fail each attempt. Pausing limits the cost, and the log grows by a bounded amount in
            # between.
            self._paused_to = self._length + self._part

    def _enter(self, writes: Sequence[Write]) -> int:
        """Note committed writes. Return their length."""
        latest, holding, length = self._latest, self._holding, 0
        for write in writes:
            key, value = write.key, write.value
            _, former = latest.get(key, _NEVER_WRITTEN)
            if value is None:
                latest.pop(key, None)
                holding -= former
                length += _HEAD
            else:
                size = _HEAD + len(value)
                latest[key] = write.revision, size
                holding += size - former
                length += size
        self._holding = holding
        self._length += length
        return length

    def _read_again(self, last: int, length: int) -> None:
        """Read the next rows, of about ``length`` bytes, but none from ``last`` on: the last row has the revision.

        Removals are not carried: when the rows are removed, no earlier row has the object.
        """
        while length > 0:
            row = next_row(self._connection, self._read_to, last)
            if row is None:
                return
            self._read_to, batch = row[0], batch_of(row)
            size = sum([_size(write.value) for write in batch])
            self._read += size
            length -= size
            self._carried += [write for write in batch if self._holds(write)]

    def _holds(self, write: Write) -> bool:
        revision, _ = self._latest.get(write.key, _NEVER_WRITTEN)
        return revision == write.revision

    def _remove(self) -> None:
        """Remove the rows that were read again. Their current writes are durable at the end of the log: `commit` came
        first."""
        self._connection.execute("delete from batches where revision <= ?", (self._read_to,))
        self._length -= self._read
        self._paused_to = 0
        self._begin_again()

    def _begin_again(self) -> None:
        self._read_to, self._read, self._carried = _BEGINNING, 0, []


def _size(value: bytes | None) -> int:
    return _HEAD + len(value or b"")
