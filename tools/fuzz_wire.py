"""Fuzzing of what peers send over sockets: SPDY frames and exec channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from cathedra.node.server.remotecommand import AnnouncedStreams, CommandSocket
from cathedra.node.spdy import FrameReader, SpdyError, Writer
from tools.fuzzing import Layer

__all__ = ["NAMES", "layer"]


def _spdy(data: bytes) -> None:
    reader = FrameReader()
    half = len(data) // 2
    for piece in (data[:half], data[half:]):
        for _ in reader.feed(piece):
            pass


class _Silent:
    """A command that reads all input and prints nothing."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Nothing, until it is closed."""
        await self._ended.wait()
        return
        yield 1, b""

    async def write(self, data: bytes) -> None:
        """Take input."""

    async def close_input(self) -> None:
        """Nothing more comes."""

    def resize(self, width: int, height: int) -> None:
        """Refuse what no terminal can be."""
        if not 0 <= width <= 65_535 or not 0 <= height <= 65_535:
            raise ValueError(f"{width}x{height} is no size of a terminal")

    async def wait(self) -> int:
        """Success."""
        return 0

    async def close(self) -> None:
        """End."""
        self._ended.set()


def _channels(data: bytes) -> None:
    """Each line is a message of its own."""
    messages: list[dict[str, Any]] = [{"type": "websocket.receive", "bytes": line} for line in data.split(b"\n")]
    messages.append({"type": "websocket.disconnect", "code": 1006})

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "websocket.disconnect", "code": 1006}

    async def send(_: Any) -> None:
        return

    wanted = AnnouncedStreams(stdin=True, stdout=True, stderr=True, tty=False)
    asyncio.run(CommandSocket(receive, send, "v5.channel.k8s.io", wanted).serve(_Silent()))


def _spdy_seeds() -> list[bytes]:
    writer = Writer()
    opened = writer.open(1, {"streamType": "data", "port": "80", "requestID": "0"})
    frames = [opened, *writer.data(1, b"hello"), writer.ping(1), writer.reset(1), *writer.data(1, b"", fin=True)]
    return [b"".join(frames), opened, b"\x80\x03\x00\x04\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x07"]


_CHANNELS: Final = (
    b'\x00input\n\x04{"Width":80,"Height":24}\n\xff\x00',
    b"\x00\n\x04{}\n\x04[]\n\x09x",
    b'\x04{"Width":1e999,"Height":-1}',
)
_Made = tuple[Callable[[bytes], Any], Callable[[], Sequence[bytes]], tuple[type[BaseException], ...]]
_WIRE: Final[dict[str, _Made]] = {
    "spdy-frames": (_spdy, _spdy_seeds, (SpdyError,)),
    "exec-channels": (_channels, lambda: _CHANNELS, ()),
}
NAMES: Final = tuple(_WIRE)


def layer(name: str) -> Layer:
    """The layer of that name."""
    take, seeds, refusals = _WIRE[name]
    return Layer(name, take, seeds, refusals)
