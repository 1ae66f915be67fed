"""The registration socket of a plugin, as the kubelet speaks to it: who is there, and whether it is registered.

docs/spec/node.md §2.2. Errors are those of the calls; what they mean for a registration its users say.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from cathedra.node.grpcsocket import open_channel
from cathedra.node.plugins.grpcclient import call_error

__all__ = ["DRIVER_TYPE", "GET_INFO_SECONDS", "PluginAnnouncement", "RegistrationSocket"]

DRIVER_TYPE: Final = "DRAPlugin"
GET_INFO_SECONDS: Final = 1.0
"""What a kubelet allows; a driver that is slow here is never registered."""
_NOTIFY: Final = 5.0


class PluginAnnouncement(msgspec.Struct, frozen=True):
    """What a driver says of itself on its registration socket."""

    socket: Path
    type: str
    name: str
    endpoint: str
    services: tuple[str, ...]


class RegistrationSocket:
    """One connection to a registration socket, for as long as a block lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = open_channel(str(path))

    async def __aenter__(self) -> RegistrationSocket:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close(None)

    async def connect(self, seconds: float) -> None:
        """Wait until it is served.

        Raises:
            TimeoutError: it is not within so many seconds.
        """
        async with asyncio.timeout(seconds):
            await self._channel.channel_ready()

    async def get_info(self, seconds: float = GET_INFO_SECONDS) -> PluginAnnouncement:
        """GetInfo.

        Raises:
            PluginCallError: it did not answer.
        """
        # With the first driver: gRPC's stubs are heavy.
        from cathedra._proto import pluginregistration_v1_pb2 as messages

        try:
            info = await self._stub().GetInfo(messages.InfoRequest(), timeout=seconds, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise call_error(error) from error
        return PluginAnnouncement(self._path, info.type, info.name, info.endpoint, tuple(info.supported_versions))

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """NotifyRegistrationStatus.

        Raises:
            PluginCallError: the driver did not take it.
        """
        # As above.
        from cathedra._proto import pluginregistration_v1_pb2 as messages

        status = messages.RegistrationStatus(plugin_registered=registered, error=error)
        try:
            await self._stub().NotifyRegistrationStatus(status, timeout=_NOTIFY, wait_for_ready=True)
        except grpc.aio.AioRpcError as problem:
            raise call_error(problem) from problem

    def _stub(self) -> Any:
        # As above.
        from cathedra._proto import pluginregistration_v1_pb2_grpc as services

        return services.RegistrationStub(self._channel)
