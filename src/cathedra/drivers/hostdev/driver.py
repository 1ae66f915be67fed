"""The driver of device nodes: publishes those that are there, and gives containers theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final

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
from cathedra.drivers.configfile import read_config
from cathedra.drivers.hostdev.config import HostDevConfig
from cathedra.drivers.hostdev.discovery import HostDevice, find
from cathedra.drivers.uevents import LOST, uevents

__all__ = ["HostDevices"]

_SETTLING: Final = 0.5
"""Seconds after an event in which udev makes nodes and enters their properties."""
_LOG = logging.getLogger(__name__)


class HostDevices(Driver):
    """Device nodes of this machine, as a file says."""

    cdi_class = "node"

    def __init__(self, config: Path | None = None, root: Path = Path("/")) -> None:
        """``root``: below which devices and what the machine tells of them are looked for.

        Raises:
            OptionError: the file is wrong.
        """
        self.config = read_config(config, HostDevConfig)
        self.name = self.config.driver
        self._root = root
        self._seen: dict[str, HostDevice] = {}
        self._present: set[str] = set()
        self._changed = asyncio.Event()

    def devices(self) -> list[Device]:
        """The nodes that are there now, by rule and path."""
        found = find(self.config.devices, self._root)
        self._seen.update((device.name, device) for device in found)
        present = {device.name for device in found}
        if present != self._present:
            self._present = present
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        return [
            Device(device.name, attributes=device.attributes, multiple_allocations=device.rule.shared)
            for device in found
        ]

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """The container gets the node, and a variable with its path.

        Raises:
            DriverError: the node has gone.
        """
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
        """A node that has gone is unhealthy, until it is there again."""
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
        """Look again whenever the kernel says that a device has come or gone."""
        try:
            async with uevents() as events:
                async for event in events:
                    if "DEVNAME" in event or event is LOST:
                        # Events go on being read meanwhile: hundreds come when a hub is plugged in.
                        asyncio.get_running_loop().call_later(_SETTLING, self.republish)
        except OSError as error:
            _LOG.warning("%s: devices that come later are not noticed: no uevents: %s", self.name, error)
