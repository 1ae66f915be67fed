"""Backup and restore of a cluster: one file with its objects, keys and description, written while it runs.

    backup.json     description and version
    objects.sqlite  one consistent state of the store
    pki/ …          authorities, certificates, the key of service account tokens
    cluster.yaml, port, kubeconfig

Files of nodes are not included: their containers, and what drivers have prepared. Objects in etcd are not either; etcd
has its own backup (docs/operations.md).

A restore replaces the contents of a data directory. The previous files stay beside the new ones, with names that end in
``.before-restore``. Revisions continue above those of both the backup and the replaced store, so that no revision means
two states: watches and caches with older revisions must list again, as after ``etcdutl snapshot restore
--bump-revision``.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

import msgspec

from cathedra import __version__
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.storage.revisionfile import RevisionFile
from cathedra.apiserver.storage.sqlite import copy_database
from cathedra.apiserver.storage.transactions import (
    FORMAT,
    DamagedRow,
    Row,
    batch_of,
    check_pages,
    rows,
    skip_to_revision,
    stored_facts,
)
from cathedra.clock import Clock
from cathedra.cluster import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import DEFAULT_NAME, Description, read_description, write_description
from cathedra.files.atomic import sync_directory
from cathedra.files.private import private_directory

API_VERSION: Final = "cathedra.dev/v1"
KIND: Final = "Backup"
DATABASE: Final = "objects.sqlite"
_MANIFEST: Final = "backup.json"
_SINGLE: Final = frozenset({_MANIFEST, DATABASE, "cluster.yaml", "port", "kubeconfig"})
_LARGEST_MANIFEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Description of a backup."""

    cluster: str
    store: str
    """``sqlite``, or the address of an etcd, whose objects are not in the backup."""
    revision: int
    """Revision of the objects; 0 without any."""
    created: str
    version: str
    """Version of the program that wrote it."""


def back_up(data: DataDir, target: Path, clock: Clock) -> Backup:
    """Write a backup of ``data`` to ``target``, for this user alone; the cluster may run meanwhile.

    Raises:
        InvalidOption: there is no cluster, its objects are in memory, or ``target`` exists or cannot be written.
    """
    if not data.exists():
        raise InvalidOption(f"there is no cluster in {data.path}; see what there is with: cathedra list")
    kept = read_description(data.description) if data.description.exists() else Description()
    database_exists = (data.path / DATABASE).is_file()
    store = str(kept.spec.get("store", "sqlite" if database_exists else "etcd"))
    if store == "memory":
        raise InvalidOption(f"the objects of {data.path} are in memory: there is nothing to back up")
    if target.exists():
        raise InvalidOption(f"{target} exists; choose another name, or remove it")
    try:
        # Beside the target: `os.link` works within one file system only.
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as folder:
            revision, database = 0, Path(folder) / DATABASE
            if store == "sqlite":
                if not database_exists:
                    raise InvalidOption(f"{data.path} has no {DATABASE}: there is nothing to back up")
                revision = copy_database(data.path / DATABASE, database)
            backup = Backup(
                cluster=kept.name or DEFAULT_NAME,
                store=store.partition("?")[0],
                revision=revision,
                created=datetime.fromtimestamp(int(clock.now()), UTC).isoformat().replace("+00:00", "Z"),
                version=__version__,
            )
            made = Path(folder) / "backup"
            _write(made, backup, data.path, database if store == "sqlite" else None)
            os.link(made, target)  # never over a file that another process has made meanwhile
        sync_directory(target.parent)
    except (OSError, sqlite3.Error) as error:
        raise InvalidOption(f"the backup cannot be written to {target}: {error}") from error
    return backup


def _write(made: Path, backup: Backup, data: Path, database: Path | None) -> None:
    manifest = {"apiVersion": API_VERSION, "kind": KIND}
    manifest |= {name: getattr(backup, name) for name in Backup.__dataclass_fields__}
    content = json.dumps(manifest, indent=2).encode()
    descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        entry = tarfile.TarInfo(_MANIFEST)
        entry.size, entry.mode = len(content), 0o600
        archive.addfile(entry, io.BytesIO(content))
        if database is not None:
            archive.add(database, DATABASE)
        for path in _kept_files(data):
            archive.add(path, str(path.relative_to(data)), recursive=False)
    with made.open("rb") as written:
        # Before the link: a backup that exists under its name must be complete after a power failure.
        os.fsync(written.fileno())


def _kept_files(data: Path) -> Iterator[Path]:
    yield from (path for name in sorted(_SINGLE - {_MANIFEST, DATABASE}) if (path := data / name).is_file())
    yield from (path for path in sorted((data / "pki").rglob("*")) if path.is_file() and not path.is_symlink())


def opened_backup(source: Path, folder: Path) -> Backup:
    """Unpack a backup into ``folder`` and check all of it; nothing else is written.

    Raises:
        InvalidOption: it cannot be read, is none, or is damaged.
    """
    try:
        with tarfile.open(source) as archive:
            for entry in archive:
                _unpack(archive, entry, folder)
        backup = _manifest(source, folder)
        if backup.store == "sqlite":
            _check_database(folder / DATABASE, backup)
    except (OSError, EOFError, tarfile.TarError, sqlite3.Error) as error:
        told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = told.partition(":\n")[0]  # tarfile adds a line for each form that it has tried
        raise InvalidOption(f"{source} is no backup that can be read: {why}") from error
    return backup


def _unpack(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    path = PurePosixPath(entry.name)
    allowed = entry.name in _SINGLE or (path.parts[0] == "pki" and ".." not in path.parts)
    # Archives may come from elsewhere: only known names are written, so none can leave the folder.
    if not entry.isreg() or not allowed or path.is_absolute():
        raise tarfile.TarError(f"{entry.name!r} is no part of a backup")
    content = archive.extractfile(entry)
    assert content is not None, "a regular file has content"
    target = folder / path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = 0o644 if target.suffix == ".crt" else 0o600
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        while piece := content.read(1 << 20):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _manifest(source: Path, folder: Path) -> Backup:
    path = folder / _MANIFEST
    try:
        read = json.loads(path.read_bytes()[:_LARGEST_MANIFEST]) if path.exists() else {}
        if (read.get("apiVersion"), read.get("kind")) != (API_VERSION, KIND):
            raise ValueError(f"{_MANIFEST} does not say apiVersion {API_VERSION} and kind {KIND}")
        return Backup(
            cluster=str(read["cluster"]),
            store=str(read["store"]),
            revision=int(read["revision"]),
            created=str(read["created"]),
            version=str(read["version"]),
        )
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise InvalidOption(f"{source} is no backup of a cluster: {error}") from error


def _check_database(database: Path, backup: Backup) -> None:
    if not database.exists():
        raise tarfile.TarError(f"it has no {DATABASE}")
    connection = sqlite3.connect(database)
    try:
        facts = stored_facts(connection)
        (verdict,) = connection.execute("pragma integrity_check(1)").fetchone()
        for row in rows(connection):
            batch_of(row)
    except StorageError as error:
        raise tarfile.TarError(f"its objects are damaged: {error}") from error
    finally:
        connection.close()
    if facts["format"] != FORMAT:
        raise tarfile.TarError(f"its objects have format {facts['format']}, this version reads {FORMAT}")
    if verdict != "ok" or facts["revision"] != backup.revision:
        raise tarfile.TarError(f"its objects are damaged ({verdict}, revision {facts['revision']})")


BUMP: Final = 1_000_000
"""Revisions that are left out: more than a store can have shown after the backup and lost without a note."""
_BEFORE: Final = ".before-restore"


def check_backup(source: Path) -> Backup:
    """Read a backup completely and return its description.

    Raises:
        InvalidOption: it cannot be read, is no backup, or is damaged.
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
    """Return the backup under another cluster name, and rename it in ``folder``. Port and kubeconfig are removed: the
    original cluster may still run, at that port."""
    for entry in ("port", "kubeconfig"):
        (folder / entry).unlink(missing_ok=True)
    described = folder / "cluster.yaml"
    if described.exists():
        write_description(described, Description(name, read_description(described).spec))
    return dataclasses.replace(backup, cluster=name)


def _replace_objects(home: Path, database: Path, revision: int) -> None:
    note = RevisionFile(home / f"{DATABASE}.revision")
    try:
        # Above both, the backup's revision and the last one that the replaced store has acknowledged.
        revision = max(revision, note.read()) + BUMP
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("pragma synchronous=full")
            skip_to_revision(connection, revision)
        # The log goes first: beside another database it would be taken for that one's.
        for suffix in ("-wal", "-shm", ""):
            _set_aside(home / f"{DATABASE}{suffix}")
        # On disk before the rename: a crash must not leave the new database beside the old log.
        sync_directory(home)
        os.rename(database, home / DATABASE)
        sync_directory(home)
        # After the database is in place: a higher note beside the old database would look like lost writes.
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


# Verification of a cluster's database: every row is compared with its checksum.
#
# The API server does the same at its start and refuses damaged rows. `verify` lists the damaged objects, also while the
# cluster runs, and `remove_damaged` removes them if there is no backup.


@dataclass(frozen=True, slots=True)
class DamagedBatch:
    """A damaged row of a database."""

    revision: int
    problem: str
    keys: tuple[str, ...]
    """Its objects, as far as they can still be read."""


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
