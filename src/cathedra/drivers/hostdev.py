"""A driver for device nodes: serial lines, cameras, /dev/fuse, loop devices, FPGAs.

    cathedra driver --module cathedra.drivers.hostdev:HostDevices --driver-config devices.yaml --node node-0

The configuration selects the nodes and their kinds:

    driver: hostdev.example.com
    devices:
      - kind: serial
        paths: [/dev/ttyS*, /dev/ttyUSB*]
        udev: {ID_BUS: usb}          # only nodes with these properties
      - kind: fuse
        paths: [/dev/fuse]
        shared: true                 # many claims at a time

Attributes come from udev's database, sysfs, and the position on the PCI bus. Everything is read below ``root``, which
tests can replace. A container that claims a device gets its node.
"""

from __future__ import annotations

import asyncio
import fnmatch
import glob
import hashlib
import logging
import os
import re
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cathedra.client.client import Client
from cathedra.driver import (
    Claim,
    Device,
    DeviceHealth,
    DeviceNode,
    Driver,
    DriverError,
    Edits,
    Health,
    Prepared,
)
from cathedra.driver.attributes import AttributeUnknown, numa_node, pci_bus_id, pcie_root
from cathedra.driver.device import AttributeValue
from cathedra.drivers.configfile import read_config
from cathedra.drivers.uevents import LOST, uevents

_SETTLING: Final = 0.5
"""Seconds after an event in which udev makes nodes and enters their properties."""
_LOG = logging.getLogger(__name__)


class HostDevices(Driver):
    """Device nodes of this machine that the configuration selects."""

    cdi_class = "node"

    def __init__(self, config: Path | None = None, root: Path = Path("/")) -> None:
        """``root``: directory below which devices and their attributes are read.

        Raises:
            OptionError: the configuration is invalid.
        """
        self.config = read_config(config, HostDevConfig)
        self.name = self.config.driver
        self._root = root
        self._seen: dict[str, HostDevice] = {}
        self._present: set[str] = set()
        self._changed = asyncio.Event()

    def devices(self) -> list[Device]:
        """Return the existing nodes, by rule and path."""
        found = find(self.config.devices, self._root)
        self._seen.update((device.name, device) for device in found)
        present = {device.name for device in found}
        # Only a change may wake the reports of health: this method runs for every uevent that names a device node.
        if present != self._present:
            self._present = present
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        return [
            Device(device.name, attributes=device.attributes, multiple_allocations=device.rule.shared)
            for device in found
        ]

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Yield the claim's devices. The container gets the device node, and a variable with its path.

        Raises:
            DriverError: the node has gone.
        """
        # Read again, not taken from the published list: a camera may have been unplugged since the scheduler chose it.
        there = {device.name: device for device in find(self.config.devices, self._root)}
        for allocation in claim.allocations:
            device = there.get(allocation.device)
            if device is None:
                raise DriverError(f"the device node of {allocation.device} is not there")
            node = DeviceNode(path=device.path, permissions=device.rule.permissions)
            variable = f"HOSTDEV_{allocation.device.upper().replace('-', '_')}"
            yield allocation.prepared(
                Edits(env={variable: device.path}, device_nodes=[node]), metadata=device.attributes
            )

    async def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        """Yield health: a node that has disappeared is unhealthy until it exists again."""
        while True:
            changed = self._changed
            yield [
                DeviceHealth(name, Health.HEALTHY)
                if name in self._present
                else DeviceHealth(name, Health.UNHEALTHY, pool=self.node_name, message=f"{device.path} has gone")
                for name, device in sorted(self._seen.items())
            ]
            await changed.wait()

    async def background(self, client: Client, directory: Path | None) -> None:
        """Publish again whenever the kernel reports that a device was added or removed."""
        try:
            async with uevents() as events:
                async for event in events:
                    if "DEVNAME" in event or event is LOST:
                        # Events go on being read meanwhile: hundreds come when a hub is plugged in.
                        asyncio.get_running_loop().call_later(_SETTLING, self.republish)
        except OSError as error:
            _LOG.warning("%s: devices that come later are not noticed: no uevents: %s", self.name, error)


_KIND: Final = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
_PERMISSIONS: Final = re.compile(r"r?w?m?", re.ASCII)


class DeviceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Device nodes that are offered as one kind."""

    kind: str
    """In one word: the beginning of the devices' names, and the attribute ``kind``."""
    paths: list[str]
    """Patterns of absolute paths, as a shell has them."""
    udev: dict[str, str] = {}
    """Properties of udev, or of the kernel's uevent, that a node must have; values may be patterns."""
    permissions: str = "rw"
    """Permissions of containers: read, write, mknod."""
    shared: bool = False
    """True if many claims may have it at a time."""
    attributes: dict[str, str | int | bool] = {}
    """More attributes, the same for all nodes of the rule."""

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise ValueError(
                f"kind {self.kind!r} must be a word of lower case letters, digits and '-', at most 32 long"
            )
        if not self.paths or not all(path.startswith("/") for path in self.paths):
            raise ValueError(f"paths of {self.kind} must be absolute, as /dev/ttyS*, got {self.paths}")
        if not self.permissions or not _PERMISSIONS.fullmatch(self.permissions):
            raise ValueError(
                f"permissions of {self.kind} must be letters of rwm in this order, got {self.permissions!r}"
            )


class HostDevConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as a whole."""

    driver: str = "hostdev.example.com"
    devices: list[DeviceRule] = []


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
    """Path on the host and in containers."""
    rule: DeviceRule
    attributes: Mapping[str, AttributeValue]


def find(rules: list[DeviceRule], root: Path = Path("/")) -> list[HostDevice]:
    """Return the nodes that the rules name, by path; a node that several name belongs to the first."""
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
    # By number, as the kernel and udev key their records: the path of a rule may be a link with a name of its own.
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
    """Return the kernel's properties of the device and of its parent."""
    properties: dict[str, str] = {}
    # The parent first, so that a property of the node itself wins over one of the same name.
    for directory in (place / "device", place):
        try:
            lines = (directory / "uevent").read_text(errors="replace").splitlines()
        except OSError:
            continue
        properties.update((key, value) for key, equals, value in (line.partition("=") for line in lines) if equals)
    return properties


def _udev(path: Path) -> dict[str, str]:
    """Return the entries of udev's database, the lines that begin with ``E:``; {} if it cannot be read."""
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
    """Return the attributes of the device's PCI position: the last address on its path; none without PCI."""
    addresses = [part for part in place.parts if _PCI.fullmatch(part)]
    if not addresses:
        return {}
    attributes: dict[str, AttributeValue] = dict(pci_bus_id(addresses[-1]))
    for ask in (pcie_root, numa_node):
        try:
            attributes.update(ask(addresses[-1], sysfs=sysfs))
        except AttributeUnknown:
            continue  # not every machine has it
    return attributes


def _name(kind: str, path: str, names: set[str]) -> str:
    """Return a DNS label for a path; if that is taken or too long, it ends with a part of the path's hash."""
    name = f"{kind}-{_NOT_IN_NAMES.sub('-', path.removeprefix('/dev/').lower()).strip('-')}"
    if name in names or len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(path.encode()).hexdigest()[:8]
        name = f"{name[: _LONGEST_NAME - 9].rstrip('-')}-{digest}"
    return name
