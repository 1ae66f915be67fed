"""What the node asks of a device plugin, and what it is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from cathedra.cdi.spec import DeviceNode
from cathedra.node.runtime.runtime import BindMount

__all__ = ["DeviceGrant", "DevicePluginClient", "PluginOptions"]


class PluginOptions(msgspec.Struct, frozen=True):
    """Which of the optional calls a plugin wants."""

    pre_start: bool = False
    preferred: bool = False


class DeviceGrant(msgspec.Struct, frozen=True):
    """What a container is given for its devices."""

    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


class DevicePluginClient(Protocol):
    """A device plugin. Each call raises `PluginCallError` when it fails."""

    async def options(self) -> PluginOptions:
        """Which optional calls it wants."""
        ...

    def watch(self) -> AsyncIterator[Mapping[str, bool]]:
        """All its devices, by ID, and whether each is healthy; again at each change, until it goes away."""
        ...

    async def preferred(self, available: Sequence[str], needed: Sequence[str], size: int) -> Sequence[str]:
        """Which ``size`` of the available devices it would choose; ``needed`` are among them."""
        ...

    async def allocate(self, devices: Sequence[str]) -> DeviceGrant:
        """Give these devices to a container."""
        ...

    async def pre_start(self, devices: Sequence[str]) -> None:
        """A container with these devices is about to start."""
        ...
