"""The interface of a device plugin, and its data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from cathedra.cdi.spec import DeviceNode
from cathedra.node.runtime.runtime import BindMount


class PluginOptions(msgspec.Struct, frozen=True):
    """Optional calls that a plugin supports."""

    pre_start: bool = False
    preferred: bool = False


class DeviceGrant(msgspec.Struct, frozen=True):
    """Environment, mounts, device nodes and CDI devices of a container's allocated devices."""

    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


class DevicePluginClient(Protocol):
    """A device plugin. Each call raises `PluginCallError` when it fails."""

    async def options(self) -> PluginOptions:
        """Return the optional calls that the plugin supports."""

    def watch(self) -> AsyncIterator[Mapping[str, bool]]:
        """All its devices, by ID, and whether each is healthy; again at each change, until it goes away."""

    async def preferred(self, available: Sequence[str], needed: Sequence[str], size: int) -> Sequence[str]:
        """Return ``size`` of the available devices, including all ``needed`` ones."""

    async def allocate(self, devices: Sequence[str]) -> DeviceGrant:
        """Give these devices to a container."""

    async def pre_start(self, devices: Sequence[str]) -> None:
        """A container with these devices is about to start."""
