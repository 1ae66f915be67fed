"""The node's side of a SPDY connection: the client opens streams, the node takes them and sends on them.

kubectl up to 1.30, and kube-apiserver up to 1.35 towards kubelets, speak SPDY/3.1 on an upgraded connection; newer ones
put the same connection into a WebSocket for port forwarding. The frames are those of `cathedra.node.spdy`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from cathedra.node.server.bytechannel import ByteChannel
from cathedra.node.spdy import Data, FrameReader, GoAway, OpenStream, Ping, Reset, SpdyError, Writer

__all__ = ["SpdyConnection", "StreamFrame"]

_TURN: Final = 64
"""Frames that are taken in one turn of the loop: a megabyte can hold 130,000 that are empty."""

StreamFrame = OpenStream | Data | Reset


class SpdyConnection:
    """Frames over ``channel``. Nothing is remembered about streams: they belong to the protocol above."""

    def __init__(self, channel: ByteChannel) -> None:
        self._channel = channel
        self._reader = FrameReader()
        self._writer = Writer()

    async def frames(self) -> AsyncIterator[StreamFrame]:
        """What the client does with streams, until it is gone; pings are answered. Frames that make no sense end it."""
        async for piece in self._channel.pieces():
            try:
                for number, frame in enumerate(self._reader.feed(piece), 1):
                    if number % _TURN == 0:
                        await asyncio.sleep(0)
                    match frame:
                        case Ping():
                            await self._channel.put(self._writer.ping(frame.number))
                        case GoAway():
                            pass  # the client opens no more; the streams that are open go on
                        case _:
                            yield frame
            except SpdyError:
                await self._channel.refuse()
                return

    async def wait_gone(self) -> None:
        """Wait until the client hangs up; what it still sends is dropped."""
        async for _ in self._channel.pieces():
            pass

    async def accept(self, stream: int) -> None:
        """Take a stream that the client has opened."""
        await self._channel.put(self._writer.reply(stream))

    async def reset(self, stream: int) -> None:
        """Break a stream off."""
        await self._channel.put(self._writer.reset(stream))

    async def send(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        """Send on a stream; with ``fin`` for the last time.

        Raises:
            OSError: the client is gone.
        """
        for frame in self._writer.data(stream, data, fin=fin):
            await self._channel.put(frame)
