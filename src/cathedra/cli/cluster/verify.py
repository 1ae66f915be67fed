"""``cathedra verify``: read all objects of a cluster's database, and compare them with their checksums."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from cathedra.cli.configuration import data_dir, which
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.backup import DATABASE
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import DEFAULT_NAME
from cathedra.cluster.data.verification import DamagedBatch, Verification, remove_damaged, verify

__all__ = ["run"]

_NAMED: Final = 10
"""Objects that are named for each damaged row; more are counted."""


def run(arguments: argparse.Namespace) -> int:
    """Print what was found; 1 if something is damaged and was not removed."""
    data = DataDir(data_dir(arguments))
    database = data.path / DATABASE
    found = verify(database)
    if arguments.output == "json":
        print(json.dumps(_plain(database, found), indent=2))
    else:
        print("\n".join(_lines(database, found)))
    if found.sound:
        return 0
    if not arguments.remove_damaged:
        print(_advice(arguments.name or "", data), file=sys.stderr)
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


def _advice(name: str, data: DataDir) -> str:
    return (
        "bring a backup back with: cathedra restore FILE; or remove what is damaged, and with it the last state of "
        f"these objects, with: cathedra verify{which(name or DEFAULT_NAME, data.path)} --remove-damaged"
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
