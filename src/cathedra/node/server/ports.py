"""Connections to ports of pods: the node's own ports, or through the runtime where pods have sandboxes.

Pods without sandboxes share the node's network. Who may forward ports of a pod must not reach what else listens on the
node's loopback, so a connection is made only to a socket that a process of the pod holds. The kernel lists the sockets
that listen in /proc/net/tcp and tcp6, and who holds them in /proc/PID/fd.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from cathedra.node.runtime.runtime import PortConnection, Runtime

__all__ = ["ConnectPort", "SocketConnection", "address_of", "port_connector"]

ConnectPort = Callable[[int], Awaitable[PortConnection]]
"""Connects to a port of one pod; raises OSError where nothing listens."""

_CHUNK: Final = 32 * 1024
_LISTEN: Final = "0A"
_REACHED_BY: Final = (
    ("127.0.0.1", ({"127.0.0.1", "::ffff:127.0.0.1"}, {"0.0.0.0"}, {"::", "::ffff:0.0.0.0"})),
    ("::1", ({"::1"}, {"::"})),
)
"""The addresses of localhost, each with the addresses of listening sockets by the kernel's preference."""


def port_connector(runtime: Runtime, pod_uid: str, containers: Callable[[], Collection[str]]) -> ConnectPort:
    """Return the connector to ports of a pod, whose running containers have the IDs ``containers()``."""
    sandboxes = runtime.sandboxes
    if sandboxes is not None:
        return lambda port: sandboxes.connect(pod_uid, port)

    async def to_own_socket(port: int) -> PortConnection:
        processes = await runtime.processes(containers())
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
    """The kernel prints addresses as numbers of 32 bits in the machine's byte order."""
    words = struct.pack(f"={len(digits) // 8}I", *(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


def _sockets(processes: Iterable[int]) -> set[str]:
    """The inodes of all sockets that the processes hold."""
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


class SocketConnection:
    """A connection to a port of the node, whose network the pod shares."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def open(address: str, port: int) -> PortConnection:
        """Connect.

        Raises:
            OSError: nothing listens there.
        """
        return SocketConnection(*await asyncio.open_connection(address, port, limit=_CHUNK))

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
