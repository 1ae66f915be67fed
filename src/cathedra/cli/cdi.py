"""``cathedra cdi``: lists, validates and applies the CDI documents of a machine.

It uses the reader and the edits of the node agent (docs/spec/node.md §19.1). Exit codes: 0 success, 1 a document is
invalid, 2 a usage error, an unknown device, or unreadable input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml
from cathedra.api.nulls import without_nulls
from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES, Catalogue, CatalogueEntry, load
from cathedra.cdi.edits import RealHostNodes, apply_edits
from cathedra.cdi.spec import EXTENSIONS, CDIError, ContainerEdits, InvalidSpec, minimum_version, read_spec
from cathedra.cluster.config import InvalidOption
from cathedra.files.inotify import Inotify
from cathedra.node.concurrency import readable
from cathedra.printable import counted

_API_VERSION: Final = "cathedra.dev/v1"


class _User(msgspec.Struct, rename="camel"):
    additional_gids: list[int] = []


class _Process(msgspec.Struct):
    env: list[str] = []
    user: _User = msgspec.field(default_factory=_User)


class _Resources(msgspec.Struct):
    devices: list[dict[str, Any]] = []


class _Linux(msgspec.Struct, rename="camel"):
    devices: list[dict[str, Any]] = []
    resources: _Resources = msgspec.field(default_factory=_Resources)
    namespaces: list[dict[str, Any]] = []
    net_devices: dict[str, Any] = {}


class _RuntimeSpec(msgspec.Struct, rename="camel"):
    """The fields of an OCI runtime spec that edits change; others are not interpreted."""

    oci_version: str
    process: _Process = msgspec.field(default_factory=_Process)
    linux: _Linux = msgspec.field(default_factory=_Linux)
    mounts: list[dict[str, Any]] = []
    hooks: dict[str, list[Any]] = {}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the command."""
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = verbs.add_parser("list", help="list all devices with their documents, and the faults of documents")
    listing.add_argument(
        "-w", "--watch", action="store_true", help="print devices that are added, changed or removed, until interrupted"
    )
    listing.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default table)"
    )
    validating = verbs.add_parser("validate", help="validate documents against every rule of the format")
    validating.add_argument(
        "files", nargs="+", type=Path, metavar="FILE|DIR|-", help="documents, or directories of them"
    )
    resolving = verbs.add_parser("resolve", help="print the merged edits of devices")
    applying = verbs.add_parser("apply", help="apply the edits of devices to an OCI runtime spec and print it")
    for verb in (resolving, applying):
        verb.add_argument(
            "names", nargs="+", metavar="VENDOR/CLASS=NAME", help="qualified device names, applied in this order"
        )
    applying.add_argument("--spec", type=Path, default=Path("-"), metavar="FILE", help="config.json (default: stdin)")
    for verb in (listing, resolving, applying):
        verb.add_argument(
            "--cdi-dir",
            action="append",
            type=Path,
            metavar="DIR",
            help="directory of documents (repeatable; later ones take precedence; "
            f"default: {', '.join(map(str, DEFAULT_DIRECTORIES))})",
        )
    for name, verb in (("list", listing), ("validate", validating), ("resolve", resolving), ("apply", applying)):
        verb.set_defaults(command="cdi", verb=name)


def run(arguments: argparse.Namespace) -> int:
    """Execute the verb. Return its exit code."""
    if arguments.verb == "validate":
        return _validate(arguments.files)
    directories = tuple(arguments.cdi_dir or DEFAULT_DIRECTORIES)
    try:
        match arguments.verb:
            case "list":
                return _list(directories, as_json=arguments.output == "json", watch=arguments.watch)
            case "resolve":
                return _resolve(load(directories), arguments.names)
            case _:
                return _apply(load(directories), arguments.names, arguments.spec)
    except CDIError as error:
        raise InvalidOption(f"{error} (documents in {', '.join(map(str, directories))})") from error


def _validate(paths: Sequence[Path]) -> int:
    wrong = 0
    for path in paths:
        for fault in _faults(path):
            wrong += 1
            print(fault)
    return 1 if wrong else 0


def _faults(path: Path) -> Iterator[str]:
    """Yield the errors of a document, or of those of a directory; valid ones are reported as such."""
    if path.is_dir():
        faults = load([path]).faults
        files = [one for one in sorted(path.iterdir()) if one.suffix in EXTENSIONS]
        for file in files:
            yield from (f"{file}: {_short(file, fault)}" for fault in faults.get(file, ()))
        right = [file for file in files if file not in faults]
    else:
        right = [Path("/dev/stdin") if str(path) == "-" else path]
    for file in right:
        try:
            spec = read_spec(file)
        except InvalidSpec as error:
            yield f"{file}: {_short(file, str(error))}"
        else:
            devices = counted(len(spec.devices), "device")
            needs = f"version {spec.cdi_version}, needs {minimum_version(spec)}"
            print(f"{file}: valid, {spec.kind}, {devices}, {needs}")


def _list(directories: Sequence[Path], *, as_json: bool, watch: bool) -> int:
    found = load(directories)
    if as_json:
        print(json.dumps(_plain(found), indent=None if watch else 2), flush=True)
    else:
        _print_table(found, directories)
    if watch:
        asyncio.run(_watch(directories, found, as_json=as_json))
    return 1 if found.faults else 0


def _plain(found: Catalogue) -> dict[str, Any]:
    return {
        "apiVersion": _API_VERSION,
        "kind": "CDIDeviceList",
        "items": [_row(entry) for _, entry in sorted(found.entries.items())],
        "shadowed": [_row(entry) for entry in found.shadowed],
        "faults": [{"file": str(path), "messages": texts} for path, texts in sorted(found.faults.items())],
    }


def _row(entry: CatalogueEntry) -> dict[str, Any]:
    edits = {"document": entry.spec.container_edits, "device": entry.device.container_edits}
    return {
        "name": entry.name,
        "file": str(entry.path),
        "cdiVersion": entry.spec.cdi_version,
        "annotations": {**entry.spec.annotations, **entry.device.annotations},
        "containerEdits": {where: msgspec.to_builtins(one) for where, one in edits.items()},
    }


def _print_table(found: Catalogue, directories: Sequence[Path]) -> None:
    if not found.entries:
        print(f"no devices in {', '.join(map(str, directories))}")
    rows = [("NAME", "EDITS", "FILE")] if found.entries else []
    rows += [(name, _counted(entry), str(entry.path)) for name, entry in sorted(found.entries.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for entry in found.shadowed:
        print(f"shadowed: {entry.name} of {entry.path} by {_winner(found, entry)}")
    for fault in _told(found):
        print(fault)
    sys.stdout.flush()


def _winner(found: Catalogue, entry: CatalogueEntry) -> str:
    usable = found.entries.get(entry.name)
    return str(usable.path) if usable is not None else "documents in conflict"


def _told(found: Catalogue) -> Iterator[str]:
    for path, texts in sorted(found.faults.items()):
        yield from (f"fault: {path}: {_short(path, text)}" for text in texts)


def _short(path: Path, fault: str) -> str:
    """Return a fault without the path, for a line that has the path already."""
    return fault.removeprefix(f"failed to read CDI Spec {path}: ")


def _counted(entry: CatalogueEntry) -> str:
    both: tuple[ContainerEdits, ...] = (entry.spec.container_edits, entry.device.container_edits)
    kinds = (
        ("variable", sum(len(edits.env) for edits in both)),
        ("device node", sum(len(edits.device_nodes) for edits in both)),
        ("mount", sum(len(edits.mounts) for edits in both)),
        ("hook", sum(len(edits.hooks) for edits in both)),
        ("interface", sum(len(edits.net_devices) for edits in both)),
        ("group", sum(len(edits.additional_gids) for edits in both)),
        ("RDT setting", sum(edits.intel_rdt is not None for edits in both)),
    )
    return ", ".join(counted(count, kind) for kind, count in kinds if count)


async def _watch(directories: Sequence[Path], known: Catalogue, *, as_json: bool) -> None:
    """Print each change until interrupted."""
    inotify = Inotify()
    try:
        while True:
            for directory in directories:
                # Nothing is ever missed of a directory that comes later: its parent is watched until then.
                inotify.watch(
                    next(one for one in (directory, *directory.absolute().parents) if one.is_dir()), writes=True
                )
            now = load(directories)
            if now != known:
                lines = [json.dumps(_plain(now))] if as_json else _changes(known, now)
                for line in lines:
                    print(line, flush=True)
                known = now
            await readable(inotify.fd)
            for _ in inotify.read():
                pass
    finally:
        inotify.close()


def _changes(before: Catalogue, after: Catalogue) -> Iterable[str]:
    for name, entry in sorted(after.entries.items()):
        if name not in before.entries:
            yield f"added: {name} in {entry.path}"
        elif before.entries[name] != entry:
            yield f"changed: {name} in {entry.path}"
    yield from (f"removed: {name}" for name in sorted(set(before.entries) - set(after.entries)))
    yield from (fault for fault in _told(after) if fault not in set(_told(before)))


def _resolve(found: Catalogue, names: Sequence[str]) -> int:
    edits = found.edits(names)
    files = list(dict.fromkeys(str(entry.path) for entry in found.resolve(names)))
    answer = {"devices": list(names), "files": files, "containerEdits": msgspec.to_builtins(edits)}
    print(json.dumps({"apiVersion": _API_VERSION, "kind": "CDIResolution", **answer}, indent=2))
    return 0


def _apply(found: Catalogue, names: Sequence[str], spec: Path) -> int:
    edits = found.edits(names)
    data = sys.stdin.buffer.read() if str(spec) == "-" else spec.read_bytes()
    try:
        plain = read_yaml(data).value
    except DecodeError as error:
        raise InvalidOption(f"{spec}: {error}") from error
    try:
        plain = without_nulls(plain, _RuntimeSpec)
        msgspec.convert(plain, _RuntimeSpec)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"{spec} is no OCI runtime spec: {error}") from error
    print(json.dumps(apply_edits(plain, edits, RealHostNodes()), indent=2))
    return 0
