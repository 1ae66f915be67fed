"""Connections to ports of pods: the node's own ports, or through the runtime where pods have sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.node.runtime.runtime import PortConnection, Runtime

__all__ = ["ConnectPort", "SocketConnection", "port_connector"]

ConnectPort = Callable[[int], Awaitable[PortConnection]]
"""Connects to a port of one pod; raises OSError where nothing listens."""

_CHUNK: Final = 32 * 1024
_ADDRESS: Final = "127.0.0.1"


def port_connector(runtime: Runtime, pod_uid: str) -> ConnectPort:
    """How ports of a pod are reached."""
    sandboxes = runtime.sandboxes
    if sandboxes is None:
        return SocketConnection.open

    async def through_runtime(port: int) -> PortConnection:
        return await sandboxes.connect(pod_uid, port)

    return through_runtime


class SocketConnection:
    """A connection to a port of the node, whose network the pod shares."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def open(port: int) -> PortConnection:
        """Connect.

        Raises:
            OSError: nothing listens there.
        """
        return SocketConnection(*await asyncio.open_connection(_ADDRESS, port))

    async def read(self) -> bytes:
        """What comes next; b"" at the end."""
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        """Send, and wait while too much is on the way."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Nothing more will be sent."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    def close(self) -> None:
        """Let go of it."""
        self._writer.close()
