"""Forwarding connections to ports of a pod, in both forms that clients speak over a WebSocket.

docs/spec/kubectl.md §6.3 and §11. kubectl sends a whole SPDY connection through the WebSocket, with a stream for
the data and one for errors of each forwarded connection; the Python client has two channels for each port that it names
beforehand. Pods share the node's network, so their ports are the node's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.node.concurrency import BlockTasks
from cathedra.node.server.spdy import Data, Frame, GoAway, OpenStream, Ping, Reader, Reset, SpdyError, Writer

__all__ = ["CHANNELS", "PROTOCOLS", "TUNNEL", "serve_channels", "serve_tunnel"]

TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
CHANNELS: Final = "v4.channel.k8s.io"
PROTOCOLS: Final = (TUNNEL, CHANNELS)
"""Sub-protocols by preference."""

_CHUNK: Final = 32 * 1024
_ADDRESS: Final = "127.0.0.1"

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def _binary(receive: Receive) -> AsyncIterator[bytes]:
    """What the client sends, until it is gone."""
    while (message := await receive())["type"] == "websocket.receive":
        data = message.get("bytes") or (message.get("text") or "").encode()
        if data:
            yield data


async def serve_tunnel(receive: Receive, send: Send) -> None:
    """Serve an accepted WebSocket that carries SPDY, until the client is gone."""
    tunnel = _Tunnel(send)
    async with asyncio.TaskGroup() as group:
        try:
            async for data in _binary(receive):
                for frame in tunnel.reader.feed(data):
                    await tunnel.take(frame, group)
        except SpdyError:
            await send({"type": "websocket.close", "code": 1002})
        finally:
            tunnel.close()


@dataclass(slots=True)
class _Forwarding:
    """One forwarded connection: its port, its two streams, and what the client has sent."""

    port: int = 0
    error: int = 0
    data: int = 0
    sent: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue())
    """b"" is the end."""
    task: asyncio.Task[None] | None = None


class _Tunnel:
    """A SPDY connection whose streams come in pairs."""

    def __init__(self, send: Send) -> None:
        self.reader = Reader()
        self._writer = Writer()
        self._send = send
        self._by_request: dict[str, _Forwarding] = {}
        self._by_stream: dict[int, _Forwarding] = {}

    async def _put(self, *frames: bytes) -> None:
        for frame in frames:
            await self._send({"type": "websocket.send", "bytes": frame})

    async def take(self, frame: Frame, group: asyncio.TaskGroup) -> None:
        """Do what a frame asks for."""
        match frame:
            case OpenStream():
                await self._open(frame, group)
            case Data():
                found = self._by_stream.get(frame.stream)
                if found is None or frame.stream != found.data:
                    return
                if frame.data:
                    found.sent.put_nowait(frame.data)
                if frame.fin:
                    found.sent.put_nowait(b"")
            case Reset():
                found = self._by_stream.get(frame.stream)
                if found is not None and found.task is not None:
                    found.task.cancel()
            case Ping():
                await self._put(self._writer.ping(frame.number))
            case GoAway():
                return

    async def _open(self, frame: OpenStream, group: asyncio.TaskGroup) -> None:
        headers = {name.lower(): value for name, value in frame.headers.items()}
        kind, port = headers.get("streamtype"), headers.get("port", "")
        if kind not in {"error", "data"} or not port.isdecimal() or not 0 < int(port) < 65536:
            await self._put(self._writer.reset(frame.stream))
            return
        await self._put(self._writer.reply(frame.stream))
        request = headers.get("requestid", "") or f"{port}/{frame.stream - (frame.stream % 4)}"
        forwarding = self._by_request.setdefault(request, _Forwarding(int(port)))
        self._by_stream[frame.stream] = forwarding
        if kind == "error":
            forwarding.error = frame.stream
        else:
            forwarding.data = frame.stream
        if forwarding.error and forwarding.data:
            del self._by_request[request]
            forwarding.task = group.create_task(self._forward(forwarding))

    async def _forward(self, forwarding: _Forwarding) -> None:
        problem = ""
        try:
            reader, writer = await asyncio.open_connection(_ADDRESS, forwarding.port)
        except OSError as error:
            problem = f"error forwarding port {forwarding.port} to the pod: {error.strerror or error}"
        else:
            await self._copy(forwarding, reader, writer)
        with contextlib.suppress(OSError):  # the client may be gone
            await self._put(*self._writer.data(forwarding.error, problem.encode(), fin=True))
            await self._put(*self._writer.data(forwarding.data, b"", fin=True))
        for stream in (forwarding.error, forwarding.data):
            self._by_stream.pop(stream, None)

    async def _copy(self, forwarding: _Forwarding, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both directions, until the pod has said everything."""
        try:
            async with BlockTasks() as sending:
                sending.start(_send_to_pod(forwarding.sent, writer))
                with contextlib.suppress(OSError):
                    while data := await reader.read(_CHUNK):
                        await self._put(*self._writer.data(forwarding.data, data))
        finally:
            writer.close()

    def close(self) -> None:
        """The client is gone: so are all connections."""
        for forwarding in (*self._by_stream.values(), *self._by_request.values()):
            if forwarding.task is not None:
                forwarding.task.cancel()


async def serve_channels(ports: Sequence[int], receive: Receive, send: Send) -> None:
    """Serve an accepted WebSocket with two channels for each of ``ports``: data, and errors."""
    sent: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in ports]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_serve_port(2 * index, port, sent[index], send)) for index, port in enumerate(ports)]
        try:
            async for data in _binary(receive):
                if data[0] % 2 == 0 and data[0] < 2 * len(ports) and data[1:]:
                    sent[data[0] // 2].put_nowait(data[1:])
        finally:
            for task in tasks:
                task.cancel()


async def _serve_port(channel: int, port: int, sent: asyncio.Queue[bytes], send: Send) -> None:
    async def put(to: int, data: bytes) -> None:
        await send({"type": "websocket.send", "bytes": bytes([to]) + data})

    for each in (channel, channel + 1):
        await put(each, port.to_bytes(2, "little"))
    try:
        reader, writer = await asyncio.open_connection(_ADDRESS, port)
    except OSError as error:
        await put(channel + 1, f"error forwarding port {port} to the pod: {error.strerror or error}".encode())
        return
    try:
        async with BlockTasks() as sending:
            sending.start(_send_to_pod(sent, writer))
            with contextlib.suppress(OSError):
                while data := await reader.read(_CHUNK):
                    await put(channel, data)
    finally:
        writer.close()


async def _send_to_pod(sent: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    """Pass on what the client sends; b"" is its end."""
    with contextlib.suppress(OSError):
        while data := await sent.get():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
