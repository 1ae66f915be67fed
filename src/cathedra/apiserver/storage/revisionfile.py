"""File with the last settled revision, beside the database, which detects a database that lost writes.

SQLite cannot distinguish an empty file, or one whose write-ahead log was removed, from a database that never held more.
So the writer notes each revision here after its transaction is on disk: the note never runs ahead of the database, and
a database behind the note has lost acknowledged writes. The note is one write of a few bytes in place, which a killed
process cannot tear; it is synced only now and then, so a power failure may leave it behind, never ahead.

The file is also the lock that keeps a second process out: SQLite's own exclusive lock would keep backups out as well.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from cathedra.apiserver.storage.protocol import StorageError

_WIDTH: Final = 20


class StoreInUse(StorageError):
    """Another process holds the store."""


class RevisionFile:
    """The file, held by this process from construction to `close`."""

    def __init__(self, path: Path) -> None:
        """Hold the file; it is made if it is missing.

        Raises:
            StoreInUse: another process holds it.
            OSError: it cannot be opened.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # On the open file, so the kernel releases it with the process, however that ends.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise StoreInUse(f"{path} is in use by another process") from error

    def read(self) -> int:
        """Return the revision that was noted last; 0 if none was.

        Raises:
            StorageError: the content is no revision.
        """
        content = os.pread(self._descriptor, 64, 0).strip()
        if not content:
            return 0
        if not content.isdigit():
            raise StorageError(f"{self.path} is damaged: remove it to go on with what the database beside it holds")
        return int(content)

    def note(self, revision: int) -> None:
        """Replace the revision.

        Raises:
            OSError: it cannot be written.
        """
        os.pwrite(self._descriptor, b"%0*d\n" % (_WIDTH, revision), 0)

    def sync(self) -> None:
        """Put the revision on disk.

        Raises:
            OSError: it cannot be written.
        """
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file, which releases the lock."""
        os.close(self._descriptor)
