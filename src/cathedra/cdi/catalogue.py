"""Devices of all CDI documents by qualified name.

docs/spec/node.md §19.1. The catalogue is a value: reading the directories returns a new one. That takes less
than a millisecond for the few files of a node. The node agent therefore reads them for every container instead of
watching them, and always finds a name that a driver has just written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from cathedra.cdi.spec import (
    EXTENSIONS,
    CDIDevice,
    ContainerEdits,
    InvalidName,
    InvalidSpec,
    QualifiedName,
    Spec,
    UnresolvableDevices,
    read_spec,
)

DEFAULT_DIRECTORIES: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Static and dynamic documents; a later directory has higher priority."""


class CatalogueEntry(msgspec.Struct, frozen=True):
    """A device and its document."""

    path: Path
    priority: int
    spec: Spec
    device: CDIDevice

    @property
    def name(self) -> str:
        """Return the qualified name, ``vendor/class=name``."""
        return f"{self.spec.kind}={self.device.name}"


class Catalogue(msgspec.Struct, frozen=True):
    """Every usable device by qualified name, and the faults of files."""

    entries: dict[str, CatalogueEntry] = msgspec.field(default_factory=dict)
    faults: dict[Path, tuple[str, ...]] = msgspec.field(default_factory=dict)
    shadowed: tuple[CatalogueEntry, ...] = ()
    """Devices that a directory of higher priority has, too, which hides these."""

    def resolve(self, names: Iterable[str]) -> tuple[CatalogueEntry, ...]:
        """Return the entries of ``names``, in their order.

        Raises:
            UnresolvableDevices: some are unknown; all of these are named.
        """
        wanted = tuple(names)
        missing = [name for name in wanted if not _known(name, self.entries)]
        if missing:
            raise UnresolvableDevices(missing)
        return tuple(self.entries[name] for name in wanted)

    def edits(self, names: Iterable[str]) -> ContainerEdits:
        """Return all edits for ``names`` in one: each file's own edits once, before its first device's.

        Raises:
            UnresolvableDevices: some names are unknown.
        """
        blocks: list[ContainerEdits] = []
        used: set[Path] = set()
        for entry in self.resolve(names):
            if entry.path not in used:
                used.add(entry.path)
                blocks.append(entry.spec.container_edits)
            blocks.append(entry.device.container_edits)
        return _joined(blocks)


def _known(name: str, entries: dict[str, CatalogueEntry]) -> bool:
    try:
        QualifiedName.parse(name)
    except InvalidName:
        return False
    return name in entries


def _joined(blocks: Sequence[ContainerEdits]) -> ContainerEdits:
    rdts = [block.intel_rdt for block in blocks if block.intel_rdt is not None]
    return ContainerEdits(
        env=tuple(v for block in blocks for v in block.env),
        device_nodes=tuple(n for block in blocks for n in block.device_nodes),
        net_devices=tuple(n for block in blocks for n in block.net_devices),
        hooks=tuple(h for block in blocks for h in block.hooks),
        mounts=tuple(m for block in blocks for m in block.mounts),
        intel_rdt=rdts[-1] if rdts else None,
        additional_gids=tuple(g for block in blocks for g in block.additional_gids),
    )


def load(directories: Sequence[Path] = DEFAULT_DIRECTORIES) -> Catalogue:
    """Read all documents in ``directories``, but not below them. Later directories have higher priority.

    A broken document costs only its own devices. The same device twice in one directory is a conflict: the name is
    ambiguous, so it cannot be used at all, not even from a directory of higher priority.
    """
    entries: dict[str, CatalogueEntry] = {}
    conflicts: set[str] = set()
    faults: dict[Path, list[str]] = {}
    shadowed: list[CatalogueEntry] = []
    for priority, directory in enumerate(directories):
        for path in _documents(directory):
            try:
                spec = read_spec(path)
            except (InvalidSpec, OSError) as error:
                faults.setdefault(path, []).append(str(error))
                continue
            for device in spec.devices:
                entry = CatalogueEntry(path, priority, spec, device)
                other = entries.get(entry.name)
                if other is not None and other.priority == priority:
                    conflicts.add(entry.name)
                    _note_conflict(entry, other, faults)
                    continue
                if other is not None:
                    shadowed.append(other)
                entries[entry.name] = entry
    usable = {name: entry for name, entry in entries.items() if name not in conflicts}
    return Catalogue(usable, {path: tuple(texts) for path, texts in faults.items()}, tuple(shadowed))


def _documents(directory: Path) -> list[Path]:
    try:
        found = sorted(directory.iterdir())
    except OSError:
        return []  # a directory that is not there yet holds no documents
    return [path for path in found if path.suffix in EXTENSIONS and not path.name.startswith(".") and path.is_file()]


def _note_conflict(entry: CatalogueEntry, other: CatalogueEntry, faults: dict[Path, list[str]]) -> None:
    text = f'conflicting device "{entry.name}" (specs "{other.path}", "{entry.path}")'
    faults.setdefault(other.path, []).append(text)
    faults.setdefault(entry.path, []).append(text)
