"""Device nodes, and what the machine tells of each: udev's database, sysfs, the place on the PCI bus.

Everything is read below ``root``, which tests may put elsewhere.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.driver.attributes import AttributeUnknown, numa_node, pci_bus_id, pcie_root
from cathedra.driver.device import AttributeValue
from cathedra.drivers.hostdev.config import DeviceRule

__all__ = ["HostDevice", "find"]

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_PCI: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_LONGEST_VALUE: Final = 64
_LONGEST_NAME: Final = 63
_TOLD: Final = {
    "ID_VENDOR": "vendor",
    "ID_MODEL": "model",
    "ID_SERIAL_SHORT": "serial",
    "ID_VENDOR_ID": "vendorID",
    "ID_MODEL_ID": "modelID",
    "DRIVER": "kernelDriver",
}
"""Properties that become attributes."""


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A device node that is offered."""

    name: str
    path: str
    """Where it is on the host, and in a container."""
    rule: DeviceRule
    attributes: Mapping[str, AttributeValue]


def find(rules: list[DeviceRule], root: Path = Path("/")) -> list[HostDevice]:
    """The nodes that the rules name, by path; a node that several name belongs to the first."""
    found: dict[str, HostDevice] = {}
    names: set[str] = set()
    for rule in rules:
        for path in _paths(rule, root):
            device = None if path in found else _device(rule, path, root, names)
            if device is not None:
                found[path] = device
                names.add(device.name)
    return list(found.values())


def _paths(rule: DeviceRule, root: Path) -> Iterator[str]:
    for pattern in rule.paths:
        for match in sorted(glob.glob(str(root / pattern.lstrip("/")))):
            yield "/" + os.path.relpath(match, root)


def _device(rule: DeviceRule, path: str, root: Path, names: set[str]) -> HostDevice | None:
    try:
        node = os.stat(root / path.lstrip("/"))
    except OSError:
        return None  # it has gone since it was listed, or its link leads nowhere
    if not stat.S_ISCHR(node.st_mode) and not stat.S_ISBLK(node.st_mode):
        return None
    letter = "c" if stat.S_ISCHR(node.st_mode) else "b"
    number = f"{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}"
    kind = "char" if letter == "c" else "block"
    place = (root / "sys/dev" / kind / number).resolve()
    properties = {**_uevent(place), **_udev(root / "run/udev/data" / f"{letter}{number}")}
    if not all(fnmatch.fnmatchcase(properties.get(key, ""), value) for key, value in rule.udev.items()):
        return None
    attributes: dict[str, AttributeValue] = {
        "kind": rule.kind,
        "path": path[:_LONGEST_VALUE],
        "type": kind,
        **_told(place, properties),
        **_on_pci(place, root / "sys"),
        **rule.attributes,
    }
    return HostDevice(_name(rule.kind, path, names), path, rule, attributes)


def _uevent(place: Path) -> dict[str, str]:
    """What the kernel says of the device, and of the one that it belongs to."""
    properties: dict[str, str] = {}
    for directory in (place / "device", place):
        try:
            lines = (directory / "uevent").read_text(errors="replace").splitlines()
        except OSError:
            continue
        properties.update((key, value) for key, equals, value in (line.partition("=") for line in lines) if equals)
    return properties


def _udev(path: Path) -> dict[str, str]:
    """The entries of udev's database, which lines beginning with ``E:`` are."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    entries = (line.removeprefix("E:").partition("=") for line in lines if line.startswith("E:"))
    return {key: value for key, equals, value in entries if equals}


def _told(place: Path, properties: Mapping[str, str]) -> dict[str, AttributeValue]:
    told: dict[str, AttributeValue] = {
        name: properties[key][:_LONGEST_VALUE] for key, name in _TOLD.items() if properties.get(key)
    }
    subsystem = place / "subsystem"
    return {**told, "subsystem": subsystem.resolve().name} if subsystem.exists() else told


def _on_pci(place: Path, sysfs: Path) -> dict[str, AttributeValue]:
    """Where the device sits, if it hangs on the PCI bus: the last address on the way to it."""
    addresses = [part for part in place.parts if _PCI.fullmatch(part)]
    if not addresses:
        return {}
    attributes: dict[str, AttributeValue] = dict(pci_bus_id(addresses[-1]))
    for ask in (pcie_root, numa_node):
        try:
            attributes.update(ask(addresses[-1], sysfs=sysfs))
        except AttributeUnknown:
            continue  # a machine need not say
    return attributes


def _name(kind: str, path: str, names: set[str]) -> str:
    """A DNS label; of two paths that would have the same, the second's ends with a part of its hash."""
    name = f"{kind}-{_NOT_IN_NAMES.sub('-', path.removeprefix('/dev/').lower()).strip('-')}"
    if name in names or len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(path.encode()).hexdigest()[:8]
        name = f"{name[: _LONGEST_NAME - 9].rstrip('-')}-{digest}"
    return name
