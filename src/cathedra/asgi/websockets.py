"""uvicorn's WebSocket protocol, with the client's certificate handed to the application, and bounded work per turn.

Compression (``permessage-deflate``) is not offered: 31 kB of it unpack to 31 MiB, and the frames that were packed
together would be parsed in one turn of the event loop.

Apart from HTTP's, for the library behind it costs a start 20 ms: the first WebSocket loads it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from cathedra.asgi.gathering import GatheringTransport
from cathedra.asgi.peercertificate import PEER_CERTIFICATE, peer_certificate

__all__ = ["CertificateWebSocketProtocol"]


_UNSENT: Final = 64 * 1024
"""Bytes that may wait for a client before the application has to. TLS would let half a megabyte wait."""
_TURN: Final = 4 * 1024
"""Bytes that are parsed in one turn of the loop. The smallest frames have two bytes (six from clients), and each ping
among them is answered: 64 KiB of pings would hold the loop for some 100 ms."""


class CertificateWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets carry the certificate of their connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Handshake(max_size=self.config.ws_max_size, logger=self.logger)
        self._unparsed = bytearray()
        self._scheduled = False
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Write to the connection itself.

        HTTP's protocol gathers what is written in one turn of the loop, without a limit: an application that sends
        without pause, as a command's output is sent, would not notice that its client reads slowly.
        """
        gathering: Any = transport
        own = gathering.detached() if isinstance(gathering, GatheringTransport) else gathering
        own.set_write_buffer_limits(high=_UNSENT)
        super().connection_made(own)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, a part in each turn of the loop. Nothing more is read meanwhile."""
        if not self._unparsed and len(data) <= _TURN:
            super().data_received(data)
            return
        self._unparsed += data
        self.transport.pause_reading()
        self._schedule()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message. Parsing and reading go on when the application has taken all messages."""
        message = await super().receive()
        if self._unparsed:
            self.transport.pause_reading()
            self._schedule()
        return message

    def _schedule(self) -> None:
        # While the application has messages to take, the rest stays as it came: a message costs 50 times its two bytes.
        if not self._scheduled and not self.read_paused:
            self._scheduled = True
            self.loop.call_soon(self._parse_next)

    def _parse_next(self) -> None:
        self._scheduled = False
        if self._lost:
            self._unparsed.clear()
            return
        data = bytes(self._unparsed[:_TURN])
        del self._unparsed[:_TURN]
        super().data_received(data)
        if self._unparsed:
            self._schedule()
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection; the library's parser refers to itself, and would stay with all that it has read."""
        self._lost = True
        super().connection_lost(exc)
        self.conn.parser.close()

    def shutdown(self) -> None:
        """Close the connection because the server ends. One that is closing already stays as it is."""
        if self.handshake_complete and not self.close_sent and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.close()
            return
        super().shutdown()

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message.

        Raises:
            ClientDisconnected: the client has left. An answer to its handshake that can no longer be sent is no fault
                of the application, and neither is a handshake that was refused: uvicorn would log both as errors.
        """
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True
        elif not self.handshake_complete and self.initial_response is None:
            raise ClientDisconnected

    async def run_asgi(self) -> None:
        """Put the certificate into the scope before the application sees it."""
        extensions: dict[str, Any] = dict(self.scope.get("extensions") or {})
        self.scope["extensions"] = extensions | {PEER_CERTIFICATE: peer_certificate(self.transport)}
        self.app = _cancelled_quietly(self.app)
        await super().run_asgi()


def _cancelled_quietly(app: Any) -> Any:
    """An application whose cancellation is no error: the server ends."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            raise ClientDisconnected from None

    return run


class _Handshake(ServerProtocol):
    """Leaves the choice of a sub-protocol to the application, as uvicorn does anyway.

    The library itself would refuse ``SPDY/3.1+portforward.k8s.io`` unseen, for the slash in it.
    """

    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        """None: the application decides."""
        return None
