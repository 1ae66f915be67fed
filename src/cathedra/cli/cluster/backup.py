"""``cathedra backup``, ``restore`` and ``verify``: a cluster in one file, and the checksums of its database."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from cathedra.cli.configuration import selected_data
from cathedra.cli.terminal import print_progress
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.backup import (
    DATABASE,
    Backup,
    DamagedBatch,
    Verification,
    back_up,
    check_backup,
    remove_damaged,
)
from cathedra.cluster.data.backup import restore as restore_into
from cathedra.cluster.data.backup import verify as verify_database
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import DEFAULT_NAME, kept_description, selected, selecting
from cathedra.cluster.process import background

_NAMED: Final = 10
"""Objects that are named for each damaged row; more are counted."""


def backup(arguments: argparse.Namespace) -> int:
    """Back up a running cluster to a file."""
    data, target = selected_data(arguments), _file(arguments)
    made = back_up(data, target, SystemClock())
    if made.store == "sqlite":
        print(f"backed up the cluster {made.cluster} at revision {made.revision} to {target}")
    else:
        print(f"backed up keys and description of the cluster {made.cluster} to {target}")
        print(_in_etcd(made, "snapshot save FILE"))
    print(f"it holds the cluster's keys, so keep it secret; bring it back with: {_restoring(data, made, target)}")
    return 0


def restore(arguments: argparse.Namespace) -> int:
    """Restore a backup; a running cluster is stopped and started again.

    Raises:
        InvalidOption: the file is no backup, or a process that ``cathedra up`` did not start holds the directory.
    """
    source, name = _file(arguments), arguments.cluster or ""
    named = selected_data(arguments) if name or arguments.data_dir else None
    found = check_backup(source)  # before anything is stopped
    # Without a name it is the cluster that was backed up. The one of the current context could be another one, whose
    # objects would be replaced.
    data = named or selected(found.cluster)
    running = data.holder()
    if running is not None and not data.description.exists():
        raise InvalidOption(
            f"{data.path} is in use by process {running}, which cathedra up did not start: stop it, restore, start it"
        )
    stopped = background.stop(data)
    former = _authority(data)
    restored = restore_into(data, source, name=name)
    print(f"restored the cluster {restored.cluster} in {data.path} as it was at {restored.created}")
    if restored.store != "sqlite":
        print(_in_etcd(found, "snapshot restore FILE"))
    if stopped is None or not data.description.exists():
        print(f"start it with: cathedra up --detach{selecting(restored.cluster, data.path)}")
        return 0
    # A context of the same authority and port is still right, and may not be there on purpose.
    same = ["--no-merge"] if former == _authority(data) else []
    pid = background.start([f"--data-dir={data.path}", *same], data.log, print_progress)
    print(f"process {stopped} was stopped; the cluster runs again as process {pid}")
    return 0


def _file(arguments: argparse.Namespace) -> Path:
    file: Path = arguments.file
    return file.expanduser().absolute()


def _authority(data: DataDir) -> bytes:
    certificate = data.path / "pki" / "ca.crt"
    return certificate.read_bytes() if certificate.exists() else b""


def _in_etcd(backup: Backup, action: str) -> str:
    endpoint = backup.store.removeprefix("etcd://").partition("/")[0]
    return f"its objects are in etcd, which has its own way: etcdctl --endpoints {endpoint} {action}"


def _restoring(data: DataDir, backup: Backup, file: Path) -> str:
    words = selecting(backup.cluster, data.path)
    if words and not words.startswith(" --data-dir"):
        words = f" --cluster {backup.cluster}"
    return f"cathedra restore {file}{words}"


# --- verify


def verify(arguments: argparse.Namespace) -> int:
    """Print the findings. Return 1 if damaged rows remain."""
    data = selected_data(arguments)
    database = data.path / DATABASE
    found = verify_database(database)
    if arguments.output == "json":
        print(json.dumps(_plain(database, found), indent=2))
    else:
        print("\n".join(_lines(database, found)))
    if found.sound:
        return 0
    if not arguments.remove_damaged:
        print(_advice(data), file=sys.stderr)
        return 1
    _remove(data, database, found)
    return 0


def _remove(data: DataDir, database: Path, found: Verification) -> None:
    running = data.holder()
    if running is not None:
        raise InvalidOption(f"{data.path} is in use by process {running}: stop it first, with cathedra down")
    kept = remove_damaged(database, found)
    print(f"removed {len(found.damaged)} damaged rows; the database as it was is kept as {kept}", file=sys.stderr)


def _lines(database: Path, found: Verification) -> list[str]:
    lines = [f"{database}: {found.objects} objects in {found.rows} rows"]
    if found.unchecked:
        lines.append(f"{found.unchecked} rows were written by an earlier version and have no checksum")
    if found.pages:
        lines.append(f"the file's structure is damaged: {found.pages}")
    lines += [f"revision {one.revision}: {one.problem}; it is about {_objects(one)}" for one in found.damaged]
    return [*lines, "sound" if found.sound else "damaged"]


def _objects(one: DamagedBatch) -> str:
    if not one.keys:
        return "objects that cannot be read"
    more = len(one.keys) - _NAMED
    return ", ".join(one.keys[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _advice(data: DataDir) -> str:
    words = selecting(kept_description(data).name or DEFAULT_NAME, data.path)
    return (
        "bring a backup back with: cathedra restore FILE; or remove what is damaged, and with it the last state of "
        f"these objects, with: cathedra verify{words} --remove-damaged"
    )


def _plain(database: Path, found: Verification) -> dict[str, Any]:
    return {
        "apiVersion": "cathedra.dev/v1",
        "kind": "Verification",
        "database": str(database),
        "sound": found.sound,
        "objects": found.objects,
        "rows": found.rows,
        "rowsWithoutChecksum": found.unchecked,
        "structure": found.pages,
        "damaged": [
            {"revision": one.revision, "problem": one.problem, "objects": list(one.keys)} for one in found.damaged
        ],
    }
