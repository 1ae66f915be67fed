"""Channels of bytes to a client, in a WebSocket or on an upgraded connection, and SPDY connections on them.

kubectl up to 1.30, and kube-apiserver up to 1.35 towards kubelets, use SPDY/3.1 on an upgraded connection; newer ones
put the same connection into a WebSocket for port forwarding. The frames are those of `cathedra.node.spdy`.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from cathedra.asgi.application import Receive, Send
from cathedra.node.spdy import Data, FrameReader, GoAway, OpenStream, Ping, Reset, SpdyError, Writer

_CHUNK: Final = 64 * 1024
_ZERO: Final = ord("0")


def choose_protocol(offered: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the sub-protocol of a WebSocket; None if both sides have none in common.

    Kubernetes serves its newest sub-protocol, here the first of ``known``, wherever it is among those offered. Of the
    others the client's order counts. A client that offers none has chosen "".
    """
    if known[0] in offered:
        return known[0]
    return next((protocol for protocol in offered or ("",) if protocol in known), None)


class NumberedChannels:
    """The channels of an accepted WebSocket. Every message begins with the number of its channel.

    The number is a byte of a binary message. With ``base64`` it is a character of a text message, "0" for channel 0,
    and the data follows in base64, for clients that have only text. As at a kubelet, the client may send either kind of
    message in both forms.
    """

    def __init__(self, receive: Receive, send: Send, *, base64: bool = False) -> None:
        self._receive = receive
        self._send = send
        self._base64 = base64

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield channel and data of the messages until the client disconnects. Invalid base64 is dropped."""
        while (message := await self._receive())["type"] == "websocket.receive":
            data = message.get("bytes") or self._encoded(message.get("text") or "")
            if not data:
                continue
            if not self._base64:
                yield data[0], data[1:]
                continue
            try:
                # Go's decoder skips line breaks, which strict mode refuses.
                decoded = binascii.a2b_base64(data[1:].translate(None, b"\r\n"), strict_mode=True)
            except binascii.Error:
                continue
            yield (data[0] - _ZERO) % 256, decoded

    def _encoded(self, text: str) -> bytes:
        # The number of a channel beyond 79 is a character beyond ASCII: in UTF-8 it would be two bytes.
        return text.encode("latin-1", "replace") if self._base64 else text.encode()

    async def put(self, channel: int, data: bytes) -> None:
        """Send data on a channel; no data is a message too.

        Raises:
            OSError: the client is gone.
        """
        if self._base64:
            text = chr((channel + _ZERO) % 256) + binascii.b2a_base64(data, newline=False).decode()
            await self._send({"type": "websocket.send", "text": text})
        else:
            await self._send({"type": "websocket.send", "bytes": bytes([channel]) + data})

    async def close(self) -> None:
        """Close the WebSocket: all was sent."""
        await self._send({"type": "websocket.close", "code": 1000})


class ByteChannel(Protocol):
    """Bytes in both directions, whose pieces have no meaning."""

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield received data until the client disconnects."""

    async def put(self, data: bytes) -> None:
        """Send to the client; returns when there is room for more.

        Raises:
            OSError: the client is gone.
        """

    async def refuse(self) -> None:
        """End it: the client does not speak the protocol."""


class WebSocketChannel:
    """The binary frames of an accepted WebSocket."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the messages until the client disconnects."""
        while (message := await self._receive())["type"] == "websocket.receive":
            data = message.get("bytes") or (message.get("text") or "").encode()
            if data:
                yield data

    async def put(self, data: bytes) -> None:
        """Send the bytes as one frame."""
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
        """Yield received data until the connection ends or breaks."""
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
        """Close the connection without a reason: the protocol has none."""
        self._writer.close()


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
        """Yield stream frames until the client disconnects. Pings are answered. Invalid frames end the connection."""
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
