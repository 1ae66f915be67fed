"""A connection that leaves HTTP: what follows an answer of status 101 is bytes, in both directions.

ASGI knows only WebSockets; Kubernetes' streams are also spoken over SPDY/3.1, and Cathedra's own parts speak a binary
protocol with the API server. A request that asks for one of these carries an `Upgrade` among its extensions, under a
name for each protocol. The application takes it by sending ``http.response.start`` with status 101, after which
`Upgrade.streams` are its own, or the protocol that it was led to speaks; or it answers as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from cathedra.asgi.application import Message, Receive, Scope, Send

__all__ = ["OFFERED", "SESSION", "SESSION_UPGRADE", "SPDY", "SWITCHING", "UPGRADE", "Connections", "Streams", "Upgrade"]

UPGRADE: Final = "cathedra.upgrade"
"""ASGI extension under which a request's `Upgrade` to SPDY is found, if it asks for one."""
SESSION_UPGRADE: Final = "cathedra.session"
"""The same, to the API in binary messages."""
SPDY: Final = b"spdy/3.1"
SESSION: Final = b"cathedra-session/1"
"""The API in binary messages, in the version of them that is spoken (`cathedra.client.local.messages`)."""
OFFERED: Final[Mapping[bytes, str]] = {SPDY: UPGRADE, SESSION: SESSION_UPGRADE}
"""The protocols that are served, in lower case, and the extensions of their upgrades."""
_UNSENT: Final = 64 * 1024
"""Bytes that may wait for a client before ``drain`` waits too. TLS would let half a megabyte wait."""
SWITCHING: Final = 101
"""The status of an answer that takes an upgrade."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Connections(Protocol):
    """The connections that a server closes when it ends; a set."""

    def add(self, connection: Any, /) -> None:
        """One more."""

    def discard(self, connection: Any, /) -> None:
        """One less."""


class Upgrade:
    """An offer to speak another protocol on the connection of one request."""

    def __init__(self, transport: asyncio.Transport, connections: Connections, holder: asyncio.BaseProtocol) -> None:
        self._transport = transport
        self.connections = connections
        """Where a protocol enters itself that is to be closed with the server, by its ``shutdown``."""
        self._holder = holder
        self._led_to: asyncio.Protocol | None = None
        self._streams: Streams | None = None

    @property
    def taken(self) -> bool:
        """Whether the connection has left HTTP, and its streams may be had."""
        return self._streams is not None

    def lead_to(self, protocol: asyncio.Protocol) -> None:
        """Let ``protocol`` speak once the upgrade is taken, in place of streams. It enters itself into `connections`
        when it begins, and leaves them when it ends."""
        self._led_to = protocol

    @property
    def streams(self) -> Streams:
        """Both directions of the connection; who takes them closes the writer.

        Raises:
            RuntimeError: no answer of status 101 was sent.
        """
        if self._streams is None:
            raise RuntimeError("the connection still speaks HTTP; send http.response.start with status 101 first")
        return self._streams

    def offered_to(self, app: Application) -> Application:
        """``app``, whose answer of status 101 switches the connection."""

        async def run(scope: Any, receive: Any, send: Send) -> None:
            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] == SWITCHING:
                    self._switch(message.get("headers", ()))
                else:
                    await send(message)

            await app(scope, receive, sending)

        return run

    def _switch(self, headers: Any) -> None:
        lines = [b"HTTP/1.1 101 Switching Protocols", b"connection: Upgrade"]
        lines += [name + b": " + value for name, value in headers]
        self._transport.write(b"\r\n".join((*lines, b"", b"")))
        self.connections.discard(self._holder)
        protocol, self._led_to = self._led_to or self._streaming(), None
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        self._transport.resume_reading()

    def _streaming(self) -> asyncio.Protocol:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Upgraded(reader, self.connections, self._transport)
        self._transport.set_write_buffer_limits(high=_UNSENT)
        self.connections.add(protocol)
        self._streams = reader, asyncio.StreamWriter(self._transport, protocol, reader, loop)
        return protocol


class _Upgraded(asyncio.StreamReaderProtocol):
    """The bytes of an upgraded connection; the server that ends closes it."""

    def __init__(self, reader: asyncio.StreamReader, connections: Connections, transport: asyncio.Transport) -> None:
        super().__init__(reader)
        self._reader_kept = reader  # the base class has a weak reference only
        self._connections = connections
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """No more of it."""
        self._connections.discard(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends."""
        self.transport.close()
