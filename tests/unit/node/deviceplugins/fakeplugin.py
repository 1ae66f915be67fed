"""A device plugin as an object, for tests in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from cathedra.cdi.spec import DeviceNode
from cathedra.node.deviceplugins.manager import DeviceGrant, PluginOptions
from cathedra.node.plugins.client import PluginCallError
from cathedra.node.runtime.runtime import BindMount

RESOURCE = "example.com/resource"


class FakePlugin:
    """A plugin with devices until `stop`; its calls are in ``calls``."""

    def __init__(self, *devices: str, options: PluginOptions | None = None) -> None:
        self.wanted = options or PluginOptions()
        self.devices = dict.fromkeys(devices, True)
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.failing = ""
        self.stopped = False
        self._news = asyncio.Event()

    def set_health(self, device: str, healthy: bool) -> None:
        self.devices[device] = healthy
        self._news.set()

    def stop(self) -> None:
        self.stopped = True
        self._news.set()

    async def options(self) -> PluginOptions:
        return self.wanted

    async def watch(self) -> AsyncIterator[Mapping[str, bool]]:
        while not self.stopped:
            self._news.clear()
            yield dict(self.devices)
            await self._news.wait()

    async def preferred(self, available: Sequence[str], needed: Sequence[str], size: int) -> Sequence[str]:
        self.calls.append(("preferred", tuple(available)))
        return sorted(available, reverse=True)[:size]

    async def allocate(self, devices: Sequence[str]) -> DeviceGrant:
        self.calls.append(("allocate", tuple(devices)))
        if self.failing:
            raise PluginCallError("Unknown", self.failing)
        return DeviceGrant(
            environment={"RESOURCE_DEVICES": ",".join(devices)},
            mounts=(BindMount("/etc/hostname", "/resource", read_only=True),),
            nodes=tuple(DeviceNode(path=f"/dev/{device}", host_path="/dev/null") for device in devices),
            annotations={"example.com/devices": ",".join(devices)},
            cdi_devices=tuple(f"example.com/resource={device}" for device in devices),
        )

    async def pre_start(self, devices: Sequence[str]) -> None:
        self.calls.append(("pre_start", tuple(devices)))
        if self.failing:
            raise PluginCallError("Unknown", self.failing)
