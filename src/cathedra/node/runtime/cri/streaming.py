"""Client of the runtime's streaming servers for exec, attach and port-forward, over SPDY/3.1.

docs/spec/kubectl.md §6.2 and §6.3, client side. An HTTP request upgrades the connection, then one stream is opened for
each kind of data. SPDY and not WebSockets, because with current runtimes only SPDY can signal the end of the input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from cathedra.node.runtime.notstarted import exit_code_for
from cathedra.node.runtime.runtime import STDERR, STDOUT, PortConnection, PortFailure, RuntimeFailure
from cathedra.node.spdy import Data, Frame, FrameReader, Ping, Reset, SpdyError, Writer

_COMMAND: Final = "v4.channel.k8s.io"
_FORWARD: Final = "portforward.k8s.io"
_SECONDS: Final = 30.0
"""Time limit of the upgrade, in seconds."""
_CHUNK: Final = 64 * 1024
_WAITING: Final = 64
"""Unread messages on one stream after which reading stops."""
_LONGEST_HEAD: Final = 64 * 1024
_ANSWERED: Final = b"HTTP/1.1 101 "


class _Streams:
    """An upgraded connection on which this side opens streams. What arrives waits in the queue of its stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._made = Writer()
        self._next = 1
        self._arrived: dict[int, asyncio.Queue[bytes]] = {}
        self._reading: asyncio.Task[None] | None = None

    @staticmethod
    async def open(url: str, protocol: str) -> _Streams:
        """Connect, and leave HTTP.

        Raises:
            OSError: there is no such server, or it refuses.
        """
        parts = urlsplit(url)
        # Runtimes serve streams on loopback without TLS; anything else is a configuration that was never tried.
        if parts.scheme != "http" or not parts.hostname:
            raise OSError(f"cannot stream from {url}: the runtime's streaming server must be plain HTTP")
        try:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=_LONGEST_HEAD)
        except OSError as error:
            raise OSError(f"cannot stream from {url}: {error}") from error
        try:
            async with asyncio.timeout(_SECONDS):
                target = parts.path + (f"?{parts.query}" if parts.query else "")
                lines = [
                    f"POST {target or '/'} HTTP/1.1",
                    f"Host: {parts.netloc}",
                    "Connection: Upgrade",
                    "Upgrade: SPDY/3.1",
                    f"X-Stream-Protocol-Version: {protocol}",
                    "Content-Length: 0",
                ]
                writer.write("\r\n".join([*lines, "", ""]).encode())
                head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise OSError(f"cannot stream from {url}: {error}") from error
        if not head.startswith(_ANSWERED):
            writer.close()
            answer = head.split(b"\r\n")[0].decode(errors="replace")
            raise OSError(f"cannot stream from {url}: {answer}")
        return _Streams(reader, writer)

    def begin(self) -> None:
        """Read what the server sends, from now on."""
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def stream(self, headers: Mapping[str, str]) -> int:
        """Open a stream; its number. Servers take no header whose name has capitals."""
        number, self._next = self._next, self._next + 2
        # Bounded: a client that reads slowly must stop the pod's output, not fill the agent's memory.
        self._arrived[number] = asyncio.Queue(_WAITING)
        self._writer.write(self._made.open(number, {name.lower(): value for name, value in headers.items()}))
        return number

    async def send(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        """Send on a stream.

        Raises:
            OSError: the connection is broken.
        """
        for frame in self._made.data(stream, data, fin=fin):
            self._writer.write(frame)
        await self._writer.drain()

    def send_soon(self, stream: int, data: bytes) -> None:
        """Send a few bytes, without waiting for room."""
        if not self._writer.is_closing():
            self._writer.writelines(self._made.data(stream, data))

    async def received(self, stream: int) -> bytes:
        """Return the next data of a stream; b"" at its end."""
        return await self._arrived[stream].get()

    async def _read(self) -> None:
        frames = FrameReader()
        with contextlib.suppress(OSError, SpdyError):
            while data := await self._reader.read(_CHUNK):
                for frame in frames.feed(data):
                    await self._take(frame)
        # Every reader must end, also those of streams that the server never closed.
        for number in self._arrived:
            await self._put(number, b"", over=True)

    async def _take(self, frame: Frame) -> None:
        match frame:
            case Data():
                await self._put(frame.stream, frame.data, over=frame.fin)
            case Reset():
                await self._put(frame.stream, b"", over=True)
            case Ping():
                # Servers close connections whose pings are not answered.
                self._writer.write(self._made.ping(frame.number))
            case _:
                pass  # the server opens no streams, and ends with the connection

    async def _put(self, stream: int, data: bytes, *, over: bool) -> None:
        queue = self._arrived.get(stream)
        if queue is None:
            return
        if data:
            await queue.put(data)
        if over:
            await queue.put(b"")

    async def close(self) -> None:
        """Close the connection, and end the reading of it."""
        self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    def abandon(self) -> None:
        """Hang up without waiting."""
        self._writer.close()
        if self._reading is not None:
            self._reading.cancel()


async def streamed(url: str, *, stdin: bool, tty: bool, exits: bool) -> StreamedCommand:
    """Connect to a command (``exits``), or to a container's own process, which has no exit code here.

    Raises:
        RuntimeFailure: the streaming server cannot be reached.
    """
    try:
        streams = await _Streams.open(url, _COMMAND)
    except OSError as error:
        raise RuntimeFailure("ExecFailed", str(error)) from error
    kinds = ["error", *(["stdin"] if stdin else []), "stdout", "resize" if tty else "stderr"]
    numbers = {kind: streams.stream({"streamType": kind}) for kind in kinds}
    streams.begin()
    return StreamedCommand(streams, numbers, exits=exits)


class StreamedCommand:
    """A command whose input and output come over SPDY."""

    def __init__(self, streams: _Streams, numbers: Mapping[str, int], *, exits: bool) -> None:
        self._streams = streams
        self._numbers = numbers
        self._exits = exits
        self._code: int | None = None

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the output, and the error text if the command could not be executed."""
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(maxsize=16)
        channels = [(STDOUT, self._numbers["stdout"])]
        if "stderr" in self._numbers:
            channels.append((STDERR, self._numbers["stderr"]))
        # No task group: a reader that stops early closes this generator at its ``yield``, and a task group makes an
        # error of that, which asyncio logs.
        pumps = [asyncio.create_task(self._pump(*each, queue), name="command output") for each in channels]
        try:
            left = len(channels)
            while left:
                channel, data = await queue.get()
                if data:
                    yield channel, data
                else:
                    left -= 1
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        problem = await self._end()
        if problem:
            yield STDERR, problem

    async def _pump(self, channel: int, number: int, queue: asyncio.Queue[tuple[int, bytes]]) -> None:
        while data := await self._streams.received(number):
            await queue.put((channel, data))
        await queue.put((channel, b""))

    async def _end(self) -> bytes:
        """Read the exit status. Return the error text for the output."""
        if self._code is not None:
            return b""
        if not self._exits:
            self._code = 0
            return b""
        said = b""
        while piece := await self._streams.received(self._numbers["error"]):
            said += piece
        self._code, problem = _ended(said)
        return f"{problem}\n".encode() if problem else b""

    async def write(self, data: bytes) -> None:
        """Write to standard input. Data that the closed input cannot accept is dropped."""
        if "stdin" in self._numbers:
            with contextlib.suppress(OSError):
                await self._streams.send(self._numbers["stdin"], data)

    async def close_input(self) -> None:
        """Close the command's input; without one nothing happens."""
        if "stdin" in self._numbers:
            with contextlib.suppress(OSError):
                await self._streams.send(self._numbers["stdin"], b"", fin=True)

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        if "resize" in self._numbers:
            size = json.dumps({"Width": width, "Height": height}).encode()
            self._streams.send_soon(self._numbers["resize"], size)

    async def wait(self) -> int:
        """Return its exit code; 0 of a container's own process."""
        await self._end()
        return self._code or 0

    async def close(self) -> None:
        """Close the connection, and end the reading of it."""
        await self._streams.close()


def _ended(said: bytes) -> tuple[int, str]:
    """Parse the error stream. Return the exit code, and the error that prevented the command from starting."""
    try:
        status = json.loads(said) if said else {}
    except ValueError:
        return 1, said.decode(errors="replace")
    if not isinstance(status, dict) or not status:
        return 1, "the container runtime has hung up"
    if status.get("status") == "Success":
        return 0, ""
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"), "")
    if code.isdecimal():
        return int(code), ""
    message = str(status.get("message", ""))
    return exit_code_for(message) or 1, message


async def forwarded(url: str, port: int) -> PortConnection:
    """Return a connection to a port of a pod.

    Raises:
        OSError: the streaming server cannot be reached, or nothing listens there.
    """
    streams = await _Streams.open(url, _FORWARD)
    head = {"port": str(port), "requestID": "0"}
    error = streams.stream({"streamType": "error", **head})
    data = streams.stream({"streamType": "data", **head})
    streams.begin()
    # The error stream is closed on this side at once: servers wait for that before they forward.
    await streams.send(error, b"", fin=True)
    return _Forwarded(streams, data, error)


class _Forwarded:
    """The two streams of a forwarded connection."""

    def __init__(self, streams: _Streams, data: int, error: int) -> None:
        self._streams = streams
        self._data = data
        self._error = error

    async def read(self) -> bytes:
        """Return the pod's next data; b"" at the end.

        Raises:
            PortFailure: the runtime reported an error.
        """
        data = await self._streams.received(self._data)
        if data:
            return data
        problem = await self._streams.received(self._error)
        if problem:
            raise PortFailure(problem.decode(errors="replace"))
        return b""

    async def write(self, data: bytes) -> None:
        """Send to the pod."""
        await self._streams.send(self._data, data)

    async def end(self) -> None:
        """Nothing more will be sent."""
        with contextlib.suppress(OSError):
            await self._streams.send(self._data, b"", fin=True)

    def close(self) -> None:
        """Close the connection to the port."""
        self._streams.abandon()
