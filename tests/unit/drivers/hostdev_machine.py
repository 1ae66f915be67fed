"""A machine whose device nodes are links to nodes that all machines have, with sysfs and udev database of its own."""

from __future__ import annotations

import os
from pathlib import Path


class Machine:
    """The root directory of such a machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("dev", "sys/dev/char", "run/udev/data", "sys/bus/pci/devices"):
            (root / folder).mkdir(parents=True)

    def add(self, path: str, like: str, *, pci: str = "", udev: dict[str, str] | None = None, uevent: str = "") -> None:
        """A node at ``path`` that is the one at ``like``, at a place on the PCI bus, known to udev."""
        node = self.root / path.lstrip("/")
        node.parent.mkdir(parents=True, exist_ok=True)
        node.symlink_to(like)
        device = os.stat(like).st_rdev
        number = f"{os.major(device)}:{os.minor(device)}"
        branch = f"pci0000:3a/{pci}" if pci else "virtual"
        place = self.root / "sys/devices" / branch / "class" / node.name
        place.mkdir(parents=True)
        (place / "uevent").write_text(uevent)
        (self.root / "sys/dev/char" / number).symlink_to(place)
        if pci:
            (place.parents[1] / "numa_node").write_text("1\n")
            (self.root / "sys/bus/pci/devices" / pci).symlink_to(place.parents[1])
        if udev:
            lines = "".join(f"E:{key}={value}\n" for key, value in udev.items())
            (self.root / "run/udev/data" / f"c{number}").write_text(f"I:1\n{lines}")

    def remove(self, path: str) -> None:
        """Unplug it."""
        (self.root / path.lstrip("/")).unlink()
