"""uvicorn's protocols, with the client's certificate handed to the application.

uvicorn keeps the certificate to itself; these two small subclasses put it into the scope, under
``extensions["cathedra.peer_certificate"]``. They touch only what uvicorn's own documentation calls the scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from cathedra.asgi.upgrade import SPDY, UPGRADE, Upgrade

__all__ = [
    "PEER_CERTIFICATE",
    "CertificateHTTPProtocol",
    "CertificateWebSocketProtocol",
    "PeerCertificate",
    "peer_certificate",
]

PEER_CERTIFICATE: Final = "cathedra.peer_certificate"
"""ASGI extension under which a request's `PeerCertificate` is found, or None."""
LARGE: Final = 65_536
"""Bytes from which on joining costs more than another record."""
HEAD_SECONDS: Final = 30.0
PIECE: Final = 16 * 1024
"""Bytes that are parsed at once. A client may send thousands of requests without waiting for an answer; all that have
arrived being parsed at once would keep every other connection waiting."""
HEAD_BYTES: Final = 1024 * 1024
"""Of a request line and its headers; the limit of Kubernetes' own server."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificate that a client showed and TLS verified."""

    der: bytes
    fields: Mapping[str, Any]
    """Subject, issuer and the rest, as `ssl.SSLSocket.getpeercert` describes them."""


def peer_certificate(transport: asyncio.BaseTransport) -> PeerCertificate | None:
    """The client's certificate, if the connection has one."""
    connection = transport.get_extra_info("ssl_object")
    der: bytes | None = connection.getpeercert(True) if connection is not None else None
    return PeerCertificate(der, connection.getpeercert()) if der else None


class _Handshake(ServerProtocol):
    """Leaves the choice of a sub-protocol to the application, as uvicorn does anyway.

    The library itself would refuse ``SPDY/3.1+portforward.k8s.io`` unseen, for the slash in it.
    """

    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        """None: the application decides."""
        return None


class GatheringTransport:
    """A transport that sends what is written in one turn of the loop as one piece.

    uvicorn writes the head of an answer and its body one by one, and each would become a TLS record and a system call
    of its own: half of what a small answer costs.
    """

    __slots__ = ("_loop", "_scheduled", "_transport", "_waiting")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._scheduled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send soon; large pieces at once, behind what waits."""
        self._waiting.append(data)
        if len(data) >= LARGE:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Send what waits and close."""
        self._flush()
        self._transport.close()

    def detached(self) -> asyncio.Transport:
        """The transport itself, behind everything that was written until now."""
        self._flush()
        transport: asyncio.Transport = self._transport
        return transport

    def _flush(self) -> None:
        self._scheduled = False
        waiting = self._waiting
        if not waiting:
            return
        self._waiting = []
        if self._transport.is_closing():
            return
        if len(waiting) == 1:
            self._transport.write(waiting[0])
        elif len(waiting[-1]) >= LARGE:
            self._transport.writelines(waiting)
        else:
            self._transport.write(b"".join(waiting))


class CertificateHTTPProtocol(HttpToolsProtocol):
    """HTTP requests carry the certificate of their connection; answers go out in one piece.

    A client that does not get done with its head of the request is sent away: after `HEAD_SECONDS`, or at once when it
    is longer than `HEAD_BYTES`.
    """

    _certificate: PeerCertificate | None = None
    _held: bytearray
    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Remember the certificate."""
        gathering: Any = GatheringTransport(transport, self.loop)
        super().connection_made(gathering)
        self._certificate = peer_certificate(transport)
        self._held = bytearray()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget about time."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, a piece at a time: while requests of one piece wait for their turn, the next is held."""
        if self._held:
            self._held += data
        elif len(data) <= PIECE:
            self._parse(data)
        else:
            self._held = bytearray(data)
            self._parse_held()

    def on_response_complete(self) -> None:
        """Go on with what is held, once its turn has come; other connections are served in between."""
        super().on_response_complete()
        if not self._held:
            return
        self.flow.pause_reading()
        if not self.pipeline:
            self.loop.call_soon(self._parse_held)

    def _parse_held(self) -> None:
        held = self._held
        self.flow.resume_reading()  # what is parsed pauses it again, if it has to
        while held and not self.pipeline and self._is_open():
            piece = bytes(held[:PIECE])
            del held[:PIECE]
            self._parse(piece)
        if not self._is_open():
            held.clear()
        elif held:
            self.flow.pause_reading()

    def _is_open(self) -> bool:
        """Whether the connection is neither closed nor handed to another protocol."""
        return self in self.connections and not self.transport.is_closing()

    def _parse(self, data: bytes) -> None:
        """Look at the time and the length of heads that do not come at once."""
        super().data_received(data)
        if not self._in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Put the certificate, and an upgrade that is asked for, into the scope before the application sees it."""
        self._in_head = False
        self._stop_timer()
        extensions: dict[str, Any] = {PEER_CERTIFICATE: self._certificate}
        self.scope["extensions"] = extensions
        # Not while an answer is still being sent: the other protocol would begin in the middle of it.
        idle = self.cycle is None or self.cycle.response_complete
        if not (self._get_upgrade() == SPDY and self.parser.should_upgrade() and idle):
            super().on_headers_complete()
            return
        upgrade = _HTTPUpgrade(self)
        extensions[UPGRADE] = upgrade
        app: Any = upgrade.offered_to(self.app)
        self.app = app
        super().on_headers_complete()
        # Whatever follows is in another protocol: it waits until that is spoken, and a refusal is the last answer.
        self.flow.pause_reading()
        self.cycle.keep_alive = False

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing of an upgrade that the application decides on."""
        if UPGRADE not in self.scope["extensions"]:
            super()._unsupported_upgrade_warning()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._refuse(b"408 Request Timeout")
        elif self.cycle is None:
            self.transport.close()

    def _refuse(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()


class _HTTPUpgrade(Upgrade):
    """The upgrade of a request that uvicorn has parsed."""

    def __init__(self, protocol: CertificateHTTPProtocol) -> None:
        gathering: Any = protocol.transport
        super().__init__(gathering.detached(), protocol.connections, protocol)
        self._cycle_of = protocol

    def _switch(self, headers: Any) -> None:
        self._cycle_of.cycle.disconnected = True  # nothing is sent in HTTP any more
        super()._switch(headers)


class CertificateWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets carry the certificate of their connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Handshake(
            extensions=self.conn.available_extensions, max_size=self.config.ws_max_size, logger=self.logger
        )

    async def run_asgi(self) -> None:
        """Put the certificate into the scope before the application sees it."""
        extensions: dict[str, Any] = dict(self.scope.get("extensions") or {})
        self.scope["extensions"] = extensions | {PEER_CERTIFICATE: peer_certificate(self.transport)}
        await super().run_asgi()
