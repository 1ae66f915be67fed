"""What an old part of the log says is put into the table of objects, and the log loses that part.

Until then a write costs its bytes alone. Most objects have been written again or removed before their turn comes (a pod
that starts is written six times, its events end within the hour), so that far fewer rows are written than there
were writes. The writer does it between two batches, some rows at a time, so that no write waits long for it. A kill in
between leaves the log as it was: it says the same once more, and in the same order.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from itertools import islice
from typing import Final

from cathedra.apiserver.storage.protocol import Write
from cathedra.apiserver.storage.transactions import batch_of, skip_to_revision

__all__ = ["Folding"]

_LOG: Final = logging.getLogger(__name__)
_KEPT: Final = 32 * 1024 * 1024
"""Bytes of writes up to which the log is left alone; a start reads them in some 50 ms."""
_PART: Final = 8 * 1024 * 1024
"""Bytes of writes that are taken out of the log together."""
_ROWS: Final = 64
"""Objects that are written between two batches: some 2 ms."""
_HEAD: Final = 64
"""Bytes of a write beside its value, about."""


class Folding:
    """The length of a log, and the part of it that is being put into the table of objects."""

    def __init__(self, connection: sqlite3.Connection, *, kept: int = _KEPT, part: int = _PART) -> None:
        """Find out how long the log is.

        Raises:
            sqlite3.Error: it cannot be read.
        """
        (length,) = connection.execute("select total(length(writes)) from batches").fetchone()
        self._connection = connection
        self._kept = kept
        self._part = part
        self._length = int(length)
        self._waiting: dict[str, Write] = {}
        self._last = 0
        self._taken = 0

    def follow(self, writes: Sequence[Write]) -> None:
        """The log is longer by these writes: go on, if there is something to do.

        What cannot be done now is logged, and tried again when the log has grown by another part.
        """
        self._length += _size(writes)
        if self._length <= self._kept and not self._last:
            return
        try:
            if not self._last:
                self._take()
            self._put_some()
        except sqlite3.Error as error:
            _LOG.warning("the store's log could not be put into its table of objects: %s", error)
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            self._waiting, self._last = {}, 0
            self._length -= self._part

    def _take(self) -> None:
        """Choose the oldest part; of each object its last state counts."""
        self._taken = 0
        rows = self._connection.execute("select revision, writes from batches order by revision")
        for revision, row in rows:
            writes = tuple(batch_of(row))
            self._waiting.update({write.key: write for write in writes})
            self._last = revision
            self._taken += _size(writes)
            if self._taken >= self._part:
                break
        rows.close()

    def _put_some(self) -> None:
        some = [self._waiting.pop(key) for key in list(islice(self._waiting, _ROWS))]
        put = [(write.key, write.revision, write.value) for write in some if write.value is not None]
        connection = self._connection
        connection.execute("begin immediate")
        connection.executemany("insert or replace into objects (key, revision, value) values (?, ?, ?)", put)
        gone = [(write.key,) for write in some if write.value is None]
        connection.executemany("delete from objects where key = ?", gone)
        if not self._waiting:
            connection.execute("delete from batches where revision <= ?", (self._last,))
            skip_to_revision(connection, self._last)
        connection.execute("commit")
        if not self._waiting:
            self._length -= self._taken
            self._last = 0


def _size(writes: Sequence[Write]) -> int:
    return sum([len(write.value or b"") + _HEAD for write in writes])
