"""A consistent copy of the SQLite database while it is being written."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from cathedra.apiserver.storage.transactions import stored_facts
from cathedra.files.atomic import sync_directory

__all__ = ["copy_database"]


def copy_database(source: Path, target: Path) -> int:
    """Copy a database in one read transaction, so that writers need not wait; the revision of the copy.

    The copy is for this user alone and on disk on return.

    Raises:
        sqlite3.Error, OSError: it cannot be made; ``target`` is as it was.
    """
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        reader, copy = sqlite3.connect(source, timeout=5.0), sqlite3.connect(temporary)
        try:
            reader.backup(copy, pages=-1)
            # One file: opening the copy needs no log beside it.
            copy.execute("pragma journal_mode=delete")
            revision = stored_facts(copy)["revision"]
        finally:
            copy.close()
            reader.close()
        descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)
    return revision
