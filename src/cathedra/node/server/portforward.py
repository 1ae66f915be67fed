"""Port forwarding, in both protocols of clients, and connections to the ports of pods.

docs/spec/kubectl.md §6.3 and §11. kubectl uses SPDY, inside a WebSocket or after an upgrade, with a data stream and an
error stream for each forwarded connection. The Python clients use two channels of a WebSocket for each port that it
names beforehand.

Pods without sandboxes share the node's network; pods with sandboxes are reached through the runtime. A user that may
forward ports of a pod must not reach other servers on the node's loopback, so a connection is made only to a socket
that a process of the pod holds. The kernel lists listening sockets in /proc/net/tcp and tcp6, and their holders in
/proc/PID/fd.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.node.concurrency import BlockTasks, first_of, until_gone
from cathedra.node.runtime.podnetworks import SocketConnection, namespace_path
from cathedra.node.runtime.runtime import PortConnection, PortFailure, Runtime
from cathedra.node.server.bytechannel import ByteChannel, NumberedChannels, SpdyConnection, StreamFrame
from cathedra.node.spdy import Data, OpenStream, Reset

__all__ = [
    "MOST_PORTS",
    "PROTOCOLS",
    "STREAMS",
    "TUNNEL",
    "ConnectPort",
    "SocketConnection",
    "address_of",
    "port_connector",
    "serve_channels",
    "serve_tunnel",
]

STREAMS: Final = "portforward.k8s.io"
"""Protocol of the streams inside SPDY."""
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
PROTOCOLS: Final = (TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
"""Sub-protocols, the newest first. "" is none, and means the same as ``v4.channel.k8s.io``."""

MOST_PORTS: Final = 128
"""Ports of one WebSocket with channels: each has two channels, whose number is one byte."""
MOST_STREAMS: Final = 1024
"""Open streams of one SPDY connection."""
MOST_UNPAIRED: Final = 64
"""Streams of one SPDY connection that wait for their partner."""
PAIR_SECONDS: Final = 30.0
"""For which a stream waits for its partner, as at a kubelet."""
_WAITING: Final = 64
_WAITING_BYTES: Final = 128 * 1024
"""Messages and bytes that may wait for one port; beyond that, nothing more is read from the client."""


class _Sent:
    """Data from the client that one port has not accepted yet; b"" is the end."""

    __slots__ = ("_bytes", "_changed", "_messages", "_over")

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._over = False

    @property
    def full(self) -> bool:
        """Return True if `put` would have to wait."""
        return len(self._messages) >= _WAITING or self._bytes >= _WAITING_BYTES

    async def put(self, data: bytes) -> None:
        """Add a message as soon as there is room; after `close` it is thrown away."""
        # A loop: another writer may take the room before this one runs.
        while self.full and not self._over:
            await self._next_change()
        if not self._over:
            self._messages.append(data)
            self._bytes += len(data)
            self._changed.set()

    async def get(self) -> bytes:
        """Return the next message."""
        while not self._messages:
            await self._next_change()
        data = self._messages.popleft()
        self._bytes -= len(data)
        self._changed.set()
        return data

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def close(self) -> None:
        """Discard further data: the port is closed."""
        # Woken writers must return: nothing will ever be read again.
        self._over = True
        self._messages.clear()
        self._bytes = 0
        self._changed.set()


async def serve_tunnel(channel: ByteChannel, connect: ConnectPort) -> None:
    """Serve SPDY over ``channel``, until the client is gone; ``connect`` reaches the pod's ports."""
    connection = SpdyConnection(channel)
    tunnel = _Tunnel(connection, connect)
    async with asyncio.TaskGroup() as group:
        try:
            await tunnel.take_all(connection.frames(), group)
        finally:
            tunnel.close()


class _Forwarding(msgspec.Struct):
    """One forwarded connection: its port, its two streams, and the client's data."""

    port: int = 0
    error: int = 0
    data: int = 0
    sent: _Sent = msgspec.field(default_factory=_Sent)
    task: asyncio.Task[None] | None = None
    """Task that serves it, or ends it if its second stream does not come."""
    paired: bool = False


class _Tunnel:
    """A SPDY connection whose streams come in pairs."""

    def __init__(self, connection: SpdyConnection, connect: ConnectPort) -> None:
        self._connection = connection
        self._connect = connect
        self._by_request: dict[str, _Forwarding] = {}
        self._by_stream: dict[int, _Forwarding] = {}

    @until_gone
    async def take_all(self, frames: AsyncIterator[StreamFrame], group: asyncio.TaskGroup) -> None:
        """Execute frames until the client disconnects."""
        async for frame in frames:
            await self._take(frame, group)

    async def _take(self, frame: StreamFrame, group: asyncio.TaskGroup) -> None:
        match frame:
            case OpenStream():
                await self._open(frame, group)
            case Data():
                found = self._by_stream.get(frame.stream)
                # Data on the error stream, or on one that was closed meanwhile: clients may still send it, so it is no
                # error.
                if found is None or frame.stream != found.data:
                    return
                if not found.paired and found.sent.full:
                    # The stream for errors, with which forwarding begins, could never be read of behind this.
                    await self._connection.reset(frame.stream)
                    return
                if frame.data:
                    await found.sent.put(frame.data)
                if frame.fin:
                    await found.sent.put(b"")
            case Reset():
                found = self._by_stream.get(frame.stream)
                if found is not None and found.task is not None:
                    found.task.cancel()
                    self._forget(found)

    async def _open(self, frame: OpenStream, group: asyncio.TaskGroup) -> None:
        headers = {name.lower(): value for name, value in frame.headers.items()}
        kind, port = headers.get("streamtype"), headers.get("port", "")
        if kind not in {"error", "data"} or not port.isdecimal() or not 0 < int(port) < 65536:
            await self._connection.reset(frame.stream)
            return
        # Old clients send no ID. Their two streams follow each other, and clients' streams have odd numbers.
        request = headers.get("requestid", "") or f"{port}/{frame.stream - (frame.stream % 4)}"
        forwarding = self._by_request.get(request)
        if not self._has_room(forwarding, kind):
            await self._connection.reset(frame.stream)
            return
        await self._connection.accept(frame.stream)
        if forwarding is None:
            forwarding = self._by_request[request] = _Forwarding(int(port))
            # Without a limit, a client that opens single streams would hold memory for ever.
            forwarding.task = group.create_task(self._expire(request, forwarding))
        self._by_stream[frame.stream] = forwarding
        if kind == "error":
            forwarding.error = frame.stream
        else:
            forwarding.data = frame.stream
        if forwarding.error and forwarding.data:
            # The ID may be used again from here on.
            del self._by_request[request]
            assert forwarding.task is not None
            forwarding.task.cancel()
            forwarding.paired = True
            forwarding.task = group.create_task(self._forward(forwarding))

    def _has_room(self, forwarding: _Forwarding | None, kind: str) -> bool:
        """Return True if another stream may be opened: the first of a pair, or the one missing in ``forwarding``."""
        if len(self._by_stream) >= MOST_STREAMS:
            return False
        if forwarding is None:
            return len(self._by_request) < MOST_UNPAIRED
        return not (forwarding.error if kind == "error" else forwarding.data)

    async def _expire(self, request: str, forwarding: _Forwarding) -> None:
        """Break off a stream whose partner does not come."""
        await asyncio.sleep(PAIR_SECONDS)
        self._forget(forwarding)
        with contextlib.suppress(OSError):  # the client may be gone
            if forwarding.error:
                problem = f"(request={request}) timed out waiting for streams"
                await self._connection.send(forwarding.error, problem.encode(), fin=True)
            else:
                await self._connection.reset(forwarding.data)

    def _forget(self, forwarding: _Forwarding) -> None:
        """Take the streams out, and what was sent to them; a task that was cancelled may never have begun."""
        forwarding.sent.close()
        for stream in (forwarding.error, forwarding.data):
            # Both numbers may still be 0, for streams that never came.
            self._by_stream.pop(stream, None)
        for request in [request for request, found in self._by_request.items() if found is forwarding]:
            del self._by_request[request]

    async def _forward(self, forwarding: _Forwarding) -> None:
        problem = ""
        try:
            port = await self._connect(forwarding.port)
        except OSError as error:
            problem = f"error forwarding port {forwarding.port} to the pod: {error.strerror or error}"
        else:
            problem = await self._copy(forwarding, port)
        finally:
            self._forget(forwarding)
        with contextlib.suppress(OSError):  # the client may be gone
            await self._connection.send(forwarding.error, problem.encode(), fin=True)
            await self._connection.send(forwarding.data, b"", fin=True)

    async def _copy(self, forwarding: _Forwarding, port: PortConnection) -> str:
        """Copy in both directions until the pod closes. Return the runtime's error, or ""."""
        problem = ""
        try:
            async with BlockTasks() as sending:
                sending.start(_send_to_pod(forwarding.sent, port))
                try:
                    while data := await port.read():
                        await self._connection.send(forwarding.data, data)
                except PortFailure as error:
                    problem = f"error forwarding port {forwarding.port} to the pod: {error}"
                except OSError:
                    pass  # one of the two has hung up
        finally:
            # Also after cancellation: the pod's process must see that its client is gone.
            port.close()
        return problem

    def close(self) -> None:
        """Cancel all connections: the client is gone."""
        for forwarding in (*self._by_stream.values(), *self._by_request.values()):
            if forwarding.task is not None:
                forwarding.task.cancel()


async def serve_channels(ports: Sequence[int], channels: NumberedChannels, connect: ConnectPort) -> None:
    """Serve an accepted WebSocket with two channels for each of ``ports``: data, and errors.

    It is closed once the connections to all ports have ended: a channel has no end of its own.
    """
    sent = [_Sent() for _ in ports]
    serving = [_serve_port(2 * index, port, sent[index], channels, connect) for index, port in enumerate(ports)]
    await first_of(_take_data(sent, channels), _serve_ports(serving, channels))


async def _take_data(sent: Sequence[_Sent], channels: NumberedChannels) -> None:
    async for channel, data in channels.messages():
        if channel % 2 == 0 and channel < 2 * len(sent) and data:
            await sent[channel // 2].put(data)


@until_gone
async def _serve_ports(serving: Iterable[Coroutine[Any, Any, None]], channels: NumberedChannels) -> None:
    async with asyncio.TaskGroup() as group:
        for each in serving:
            group.create_task(each)
    await channels.close()


@until_gone
async def _serve_port(channel: int, port: int, sent: _Sent, channels: NumberedChannels, connect: ConnectPort) -> None:
    for each in (channel, channel + 1):
        # Clients expect the port as the first message of each channel, and wait for it.
        await channels.put(each, port.to_bytes(2, "little"))
    try:
        connection = await connect(port)
    except OSError as error:
        sent.close()
        await channels.put(channel + 1, f"error forwarding port {port} to the pod: {error.strerror or error}".encode())
        return
    try:
        async with BlockTasks() as sending:
            sending.start(_send_to_pod(sent, connection))
            try:
                while data := await connection.read():
                    await channels.put(channel, data)
            except PortFailure as error:
                await channels.put(channel + 1, f"error forwarding port {port} to the pod: {error}".encode())
            except OSError:
                pass  # one of the two has hung up
    finally:
        sent.close()
        connection.close()


async def _send_to_pod(sent: _Sent, port: PortConnection) -> None:
    """Pass on what the client sends; b"" is its end."""
    with contextlib.suppress(OSError):
        while data := await sent.get():
            await port.write(data)
        await port.end()


ConnectPort = Callable[[int], Awaitable[PortConnection]]
"""Connects to a port of one pod; raises OSError where nothing listens."""

_LISTEN: Final = "0A"
_REACHED_BY: Final = (
    ("127.0.0.1", ({"127.0.0.1", "::ffff:127.0.0.1"}, {"0.0.0.0"}, {"::", "::ffff:0.0.0.0"})),
    ("::1", ({"::1"}, {"::"})),
)
"""The addresses of localhost, each with the addresses of listening sockets by the kernel's preference."""


def port_connector(runtime: Runtime, pod_uid: str, containers: Callable[[], Collection[str]]) -> ConnectPort:
    """Return the connector to ports of a pod, whose running containers have the IDs ``containers()``."""
    sandboxes = runtime.sandboxes
    # With `--pod-network` a pod in the node's network has no namespace, and is reached as without that option.
    if sandboxes is not None and (runtime.images is not None or namespace_path(pod_uid) is not None):
        return lambda port: sandboxes.connect(pod_uid, port)

    async def to_own_socket(port: int) -> PortConnection:
        processes = await runtime.processes(containers())
        # Reading /proc of many processes takes milliseconds, which would block all other streams.
        address = await asyncio.to_thread(address_of, port, processes)
        if address is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no process of the pod listens there")
        return await SocketConnection.open(address, port)

    return to_own_socket


def address_of(port: int, processes: Iterable[int]) -> str | None:
    """Return the address of localhost at which one of ``processes`` listens on ``port``; None if none does.

    Where another process listens too, at an address that the kernel prefers, the answer is None.
    """
    listening = [*_listening("tcp", port), *_listening("tcp6", port)]
    if not listening:
        return None
    own = _sockets(processes)
    for address, places in _REACHED_BY:
        found = [{inode for name, inode in listening if name in names} for names in places]
        reached = next((inodes for inodes in found if inodes), set())
        # All sockets there must be the pod's: with SO_REUSEPORT the kernel may choose another process.
        if reached and reached <= own:
            return address
    return None


def _listening(table: str, port: int) -> list[tuple[str, str]]:
    """Address and inode of each socket that listens on ``port``."""
    try:
        lines = Path("/proc/self/net", table).read_text().splitlines()[1:]
    except OSError:
        return []  # no IPv6
    suffix, found = f":{port:04X}", []
    for line in lines:
        _, local, _, state, *_, inode = line.split(maxsplit=10)[:10]
        if state == _LISTEN and local.endswith(suffix):
            found.append((_address(local.removesuffix(suffix)), inode))
    return found


def _address(digits: str) -> str:
    """Return the IP address that the kernel prints as numbers of 32 bits in the machine's byte order."""
    words = struct.pack(f"={len(digits) // 8}I", *(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


def _sockets(processes: Iterable[int]) -> set[str]:
    """Return the inodes of all sockets that the processes hold."""
    found = set[str]()
    for pid in processes:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # it has ended, or belongs to another user
        for name in names:
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}").removeprefix("socket:[").removesuffix("]"))
    return found
