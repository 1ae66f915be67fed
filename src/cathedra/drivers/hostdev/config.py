"""Which device nodes are offered, and as what.

driver: hostdev.example.com
devices:
  - kind: serial
    paths: [/dev/ttyS*, /dev/ttyUSB*]
    udev: {ID_BUS: usb}          # only nodes with these properties
  - kind: fuse
    paths: [/dev/fuse]
    shared: true                 # many claims at a time
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["DeviceRule", "HostDevConfig"]

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
    """What a container may do: read, write, make nodes (mknod)."""
    shared: bool = False
    """Whether many claims may have it at a time."""
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
