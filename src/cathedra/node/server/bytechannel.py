"""The bytes of a SPDY connection: inside a WebSocket, or on a connection that was upgraded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Protocol

from cathedra.asgi.application import Receive, Send

__all__ = ["ByteChannel", "UpgradedChannel", "WebSocketChannel", "binary"]

_CHUNK: Final = 64 * 1024


async def binary(receive: Receive) -> AsyncIterator[bytes]:
    """What the client of an accepted WebSocket sends, until it is gone."""
    while (message := await receive())["type"] == "websocket.receive":
        data = message.get("bytes") or (message.get("text") or "").encode()
        if data:
            yield data


class ByteChannel(Protocol):
    """Bytes in both directions, whose pieces have no meaning."""

    def pieces(self) -> AsyncIterator[bytes]:
        """What the client sends, until it is gone."""
        ...

    async def put(self, data: bytes) -> None:
        """Send to the client; returns when there is room for more.

        Raises:
            OSError: the client is gone.
        """
        ...

    async def refuse(self) -> None:
        """End it: the client does not speak the protocol."""
        ...


class WebSocketChannel:
    """The binary frames of an accepted WebSocket."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    def pieces(self) -> AsyncIterator[bytes]:
        """The content of its frames."""
        return binary(self._receive)

    async def put(self, data: bytes) -> None:
        """Send a frame."""
        await self._send({"type": "websocket.send", "bytes": data})

    async def refuse(self) -> None:
        """Close it as a protocol error."""
        await self._send({"type": "websocket.close", "code": 1002})


class UpgradedChannel:
    """A connection that has left HTTP (`cathedra.asgi.upgrade`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def pieces(self) -> AsyncIterator[bytes]:
        """What arrives, until the connection ends or breaks."""
        while True:
            try:
                data = await self._reader.read(_CHUNK)
            except OSError as error:
                error.__traceback__ = None  # the reader keeps the error, and its frames the reader
                return
            if not data:
                return
            yield data

    async def put(self, data: bytes) -> None:
        """Send, and wait while too much is on the way."""
        self._writer.write(data)
        await self._writer.drain()

    async def refuse(self) -> None:
        """Close the connection."""
        self._writer.close()
