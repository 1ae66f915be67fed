"""A backup in the place of what a data directory holds.

What was there before stays beside it, under names that end with ``.before-restore``. Objects go on from a revision that
neither the backup nor the replaced store has ever shown, so that no revision means two states: watches and caches that
know the replaced objects are told to list again, as after ``etcdutl snapshot restore --bump-revision``.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from cathedra.apiserver.storage.revisionfile import RevisionFile
from cathedra.apiserver.storage.transactions import skip_to_revision
from cathedra.cluster.data.backup import DATABASE, Backup, opened_backup
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.description import Description, read_description, write_description
from cathedra.files.atomic import sync_directory
from cathedra.files.private import private_directory

__all__ = ["check_backup", "restore"]

BUMP: Final = 1_000_000
"""Revisions that are left out: more than a store can have shown after the backup and lost without a note."""
_BEFORE: Final = ".before-restore"


def check_backup(source: Path) -> Backup:
    """What a backup holds; all of it is read.

    Raises:
        InvalidOption: it cannot be read, is none, or is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="cathedra-restore-") as folder:
        return opened_backup(source, Path(folder))


def restore(data: DataDir, source: Path, *, name: str = "") -> Backup:
    """Put a backup in the place of what ``data`` holds; no process may use it.

    With another ``name`` than the backup's it becomes a cluster of that name, with a port of its own.

    An interruption leaves a data directory without objects, which no server starts on; restoring again completes it.

    Raises:
        DataDirInUse: a process uses it.
        InvalidOption: the backup is none, or the directory cannot be used.
        OSError: a file cannot be written.
    """
    private_directory(data.path)
    with data.held(), tempfile.TemporaryDirectory(prefix=".restore-", dir=data.path) as unpacked:
        folder = Path(unpacked)
        backup = opened_backup(source, folder)
        if name and name != backup.cluster:
            backup = _renamed(backup, name, folder)
        if backup.store == "sqlite":
            _replace_objects(data.path, folder / DATABASE, backup.revision)
        for entry in ("pki", "cluster.yaml", "port", "kubeconfig"):
            if (folder / entry).exists():
                _set_aside(data.path / entry)
                os.rename(folder / entry, data.path / entry)
        sync_directory(data.path)
    return backup


def _renamed(backup: Backup, name: str, folder: Path) -> Backup:
    """The cluster that it was may still run, at the port that it has."""
    for entry in ("port", "kubeconfig"):
        (folder / entry).unlink(missing_ok=True)
    described = folder / "cluster.yaml"
    if described.exists():
        write_description(described, Description(name, read_description(described).spec))
    return dataclasses.replace(backup, cluster=name)


def _replace_objects(home: Path, database: Path, revision: int) -> None:
    note = RevisionFile(home / f"{DATABASE}.revision")
    try:
        revision = max(revision, note.read()) + BUMP
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("pragma synchronous=full")
            skip_to_revision(connection, revision)
        # The log goes first: beside another database it would be taken for that one's.
        for suffix in ("-wal", "-shm", ""):
            _set_aside(home / f"{DATABASE}{suffix}")
        sync_directory(home)
        os.rename(database, home / DATABASE)
        sync_directory(home)
        note.note(revision)
        note.sync()
    finally:
        note.close()


def _set_aside(path: Path) -> None:
    former = path.with_name(f"{path.name}{_BEFORE}")
    if former.is_dir():
        shutil.rmtree(former)
    else:
        former.unlink(missing_ok=True)
    if path.exists():
        os.rename(path, former)
