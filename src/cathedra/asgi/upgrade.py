"""Upgrade of an HTTP connection to another protocol than WebSockets, which alone ASGI defines.

Kubernetes' streams also run over SPDY/3.1, and Cathedra's parts use a binary protocol with the API server. The scope of
a request for such a protocol has an `Upgrade` among its extensions. The application accepts it by sending
``http.response.start`` with status 101, and then uses `Upgrade.streams` or the protocol that it has set with
`Upgrade.lead_to`; or it sends an ordinary response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from cathedra.asgi.application import ASGIApplication, Message, Send

UPGRADE: Final = "cathedra.upgrade"
"""ASGI extension: the `Upgrade` of a request for SPDY."""
SESSION_UPGRADE: Final = "cathedra.session"
"""ASGI extension: the `Upgrade` of a request for the API in binary messages."""
SPDY: Final = b"spdy/3.1"
SESSION: Final = b"cathedra-session/2"
"""The binary protocol of sessions, with its version (`cathedra.session.protocol`)."""
OFFERED: Final[Mapping[bytes, str]] = {SPDY: UPGRADE, SESSION: SESSION_UPGRADE}
"""The protocols that are served, in lower case, and the extensions of their upgrades."""
_UNSENT: Final = 64 * 1024
"""Bytes that may wait for a client before ``drain`` waits. TLS would let half a megabyte wait."""
SWITCHING: Final = 101
"""The status of a response that accepts an upgrade."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Connections(Protocol):
    """The connections that a server closes when it ends; a set."""

    def add(self, connection: Any, /) -> None:
        """Close ``connection`` with the server."""

    def discard(self, connection: Any, /) -> None:
        """Stop doing so: it has ended."""


class Upgrade:
    """An offer to speak another protocol on the connection of one request."""

    def __init__(self, transport: asyncio.Transport, connections: Connections, holder: asyncio.BaseProtocol) -> None:
        self._transport = transport
        self.connections = connections
        """A protocol that is added here is closed with the server, by a call of its ``shutdown``."""
        self._holder = holder
        self._led_to: asyncio.Protocol | None = None
        self._streams: Streams | None = None

    @property
    def taken(self) -> bool:
        """Return True if the connection has left HTTP and has `streams`."""
        return self._streams is not None

    def lead_to(self, protocol: asyncio.Protocol) -> None:
        """Hand the connection to ``protocol`` instead of making streams once the upgrade is accepted. ``protocol`` adds
        itself to `connections` when it begins and removes itself when it ends."""
        self._led_to = protocol

    @property
    def streams(self) -> Streams:
        """Both directions of the connection. The caller closes the writer.

        Raises:
            RuntimeError: no response of status 101 was sent.
        """
        if self._streams is None:
            raise RuntimeError("the connection still speaks HTTP; send http.response.start with status 101 first")
        return self._streams

    def offered_to(self, app: ASGIApplication) -> ASGIApplication:
        """Return ``app`` with a ``send`` that switches the connection on a response of status 101."""

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
    """The streams of an upgraded connection, which end with the server."""

    def __init__(self, reader: asyncio.StreamReader, connections: Connections, transport: asyncio.Transport) -> None:
        super().__init__(reader)
        self._reader_kept = reader  # the base class has a weak reference only
        self._connections = connections
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from those of the server."""
        self._connections.discard(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection because the server ends."""
        self.transport.close()
