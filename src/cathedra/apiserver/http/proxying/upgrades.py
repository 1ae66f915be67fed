"""SPDY through the API server: the bytes of a connection to another server, unchanged in both directions.

kubectl before 1.31 uses SPDY/3.1, and every kubelet understands it, so nothing in between has to. The answer of the
node to the upgrade is passed on too: the client shows a refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from cathedra.apiserver.http.answers.response import Response
from cathedra.asgi.application import Send
from cathedra.asgi.upgrade import SWITCHING, Upgrade

_CONNECT_SECONDS: Final = 30.0
_CHUNK: Final = 64 * 1024
_STATUS: Final = re.compile(rb"[1-9][0-9]{2}")
"""A code of any length would be passed to the client and to metrics."""
_LONGEST_HEAD: Final = 64 * 1024
_LONGEST_BODY: Final = 64 * 1024
"""Limit of the text of a refusal that is passed on, in bytes."""
_HANDED_ON: Final = frozenset({b"upgrade", b"x-stream-protocol-version", b"x-accepted-stream-protocol-versions"})
"""Headers of the answer that the client needs."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class BadAnswer(ConnectionError):
    """A node answered with something that is not HTTP."""


class NodeRequestHead(msgspec.Struct, frozen=True):
    """The head of a request for an upgrade, and the address of its server."""

    host: str
    """The name or address in the certificate of the node."""
    address: str
    port: int
    target: str
    """Path and query of the request."""
    protocols: tuple[str, ...] = ()
    """The stream protocols that the client offers."""
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    """Headers beside those of the upgrade."""

    def encoded(self) -> bytes:
        """Return the bytes of the head."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {shown}:{self.port}", "Content-Length: 0"]
        lines += ["Connection: Upgrade", "Upgrade: SPDY/3.1"]
        lines += [f"X-Stream-Protocol-Version: {protocol}" for protocol in self.protocols]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join((*lines, "", "")).encode("latin-1")


class NodeAnswer(msgspec.Struct, frozen=True):
    """The answer of a node, with its connection."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """Names are in lower case."""
    connection: Connection

    @property
    def handed_on(self) -> list[tuple[bytes, bytes]]:
        """Return the headers for the client."""
        return [(name, value) for name, value in self.headers if name in _HANDED_ON]

    async def body(self) -> bytes:
        """Read the text of a refusal, as far as it is passed on."""
        reader, _ = self.connection
        length = next((int(v) for n, v in self.headers if n == b"content-length" and v.isdigit()), _LONGEST_BODY)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                return await reader.readexactly(min(length, _LONGEST_BODY))
            except asyncio.IncompleteReadError as error:
                return error.partial
        return b""


@contextlib.asynccontextmanager
async def ask_node(head: NodeRequestHead, tls: ssl.SSLContext | None) -> AsyncIterator[NodeAnswer]:
    """Request an upgrade and yield the answer of the node; its connection is closed when the block ends.

    Raises:
        OSError: the node cannot be reached, or does not prove itself.
        BadAnswer: it does not speak HTTP.
    """
    name = head.host if tls is not None else None
    async with asyncio.timeout(_CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(
            head.address, head.port, ssl=tls, server_hostname=name, limit=_LONGEST_HEAD
        )
        # A slow side must hold up the fast one, or its bytes would gather here.
        writer.transport.set_write_buffer_limits(high=_CHUNK)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            writer.write(head.encoded())
            await writer.drain()
            status, headers = await _head(reader)
        yield NodeAnswer(status, headers, (reader, writer))
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[int, tuple[tuple[bytes, bytes], ...]]:
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n").split(b"\r\n")
        version, status, *_ = first.split(b" ")
        if not version.startswith(b"HTTP/1.") or not _STATUS.fullmatch(status):
            raise ValueError(first)
        pairs = (line.partition(b":") for line in lines)
        return int(status), tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
    except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BadAnswer(f"the node's answer to the upgrade is not HTTP: {error}") from error


async def pass_upgrade(
    asking: AbstractAsyncContextManager[NodeAnswer], upgrade: Upgrade, send: Send
) -> Response | None:
    """Pass bytes both ways once the other server has left HTTP, or return its answer.

    Raises:
        OSError: the server cannot be reached.
    """
    async with asking as answer:
        if answer.status != SWITCHING:
            kind = next((value for name, value in answer.headers if name == b"content-type"), b"text/plain")
            return Response(answer.status, await answer.body(), kind)
        await send({"type": "http.response.start", "status": SWITCHING, "headers": answer.handed_on})
        try:
            await copy_both_ways(upgrade.streams, answer.connection)
        finally:
            upgrade.streams[1].close()
    return None


async def copy_both_ways(one: Connection, other: Connection) -> None:
    """Pass all bytes both ways until either side ends."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_copy(one[0], other[1])), group.create_task(_copy(other[0], one[1]))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # The other direction ends too: half a stream is of no use to SPDY.
        for task in tasks:
            task.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError as error:  # a connection that breaks has ended
        # The reader keeps the error, and the error's frames would keep the reader with its buffers and its TLS.
        error.__traceback__ = None
