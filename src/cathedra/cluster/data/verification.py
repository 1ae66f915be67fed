"""Verification of a cluster's database: every row is compared with its checksum.

The API server does the same at its start and refuses damaged rows. `verify` lists the damaged objects, also while the
cluster runs, and `remove_damaged` removes them if there is no backup.
"""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import msgspec

from cathedra.apiserver.storage.transactions import (
    DamagedRow,
    Row,
    batch_of,
    check_pages,
    rows,
    skip_to_revision,
    stored_facts,
)
from cathedra.cluster.config import InvalidOption
from cathedra.files.atomic import sync_directory


@dataclass(frozen=True, slots=True)
class DamagedBatch:
    """A row that is not what was written."""

    revision: int
    problem: str
    keys: tuple[str, ...]
    """The objects that it is about, as far as they can still be read."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a database."""

    rows: int
    objects: int
    """Objects in the rows that are sound."""
    unchecked: int
    """Rows that an earlier version wrote, which have no checksum."""
    damaged: tuple[DamagedBatch, ...]
    pages: str
    """The problem of the file's structure; empty if there is none."""

    @property
    def sound(self) -> bool:
        """True if nothing is damaged."""
        return not self.damaged and not self.pages


def verify(database: Path) -> Verification:
    """Read all of a database, which may be in use.

    Raises:
        InvalidOption: there is no such file, or it is no database of Cathedra's.
    """
    if not database.exists():
        raise InvalidOption(f"there is no {database}: only clusters with --store sqlite have one")
    connection = sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, timeout=5.0)
    try:
        return _verified(connection)
    except sqlite3.DatabaseError as error:
        raise InvalidOption(f"{database} cannot be read: {error}") from error
    finally:
        connection.close()


def remove_damaged(database: Path, found: Verification) -> Path:
    """Remove the damaged rows, and return where the file as it was is kept. No process may have it open.

    Objects that were written in these rows alone are gone afterwards; others are as they were written before.

    Raises:
        InvalidOption: the file's structure is damaged as well, and a backup is needed.
        OSError, sqlite3.Error: it cannot be copied or written; nothing was removed.
    """
    if found.pages:
        raise InvalidOption(f"{database} cannot be repaired ({found.pages}): bring a backup back with cathedra restore")
    connection = sqlite3.connect(database, isolation_level=None, timeout=5.0)
    try:
        connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        kept = _unused(database)
        shutil.copy2(database, kept)
        sync_directory(database.parent)
        connection.execute("begin immediate")
        # At a revision that nothing was shown at, watches and caches that know removed objects list again.
        skip_to_revision(connection, stored_facts(connection)["revision"] + 1)
        connection.executemany("delete from batches where revision = ?", [(one.revision,) for one in found.damaged])
        connection.execute("commit")
    finally:
        connection.close()
    return kept


def _verified(connection: sqlite3.Connection) -> Verification:
    pages = ""
    try:
        check_pages(connection)
    except sqlite3.DatabaseError as error:
        pages = str(error)
    columns = [name for (name,) in connection.execute("select name from pragma_table_info('batches')")]
    if "checksum" not in columns:
        raise sqlite3.DatabaseError("no log with checksums; start the cluster once with this version")
    objects: set[str] = set()
    damaged: list[DamagedBatch] = []
    count = unchecked = 0
    for row in rows(connection):
        count += 1
        unchecked += row[2] is None
        try:
            for write in batch_of(row):
                if write.value is None:
                    objects.discard(write.key)
                else:
                    objects.add(write.key)
        except DamagedRow as error:
            damaged.append(DamagedBatch(row[0], str(error).partition(": ")[2], _keys(row)))
    return Verification(count, len(objects), unchecked, tuple(damaged), pages)


def _keys(row: Row) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(str(key) for key, *_ in msgspec.msgpack.decode(row[1])))
    except (msgspec.DecodeError, UnicodeError, TypeError, ValueError):
        return ()


def _unused(database: Path) -> Path:
    number = 1
    while (path := database.with_name(f"{database.name}.damaged-{number}")).exists():
        number += 1
    return path
