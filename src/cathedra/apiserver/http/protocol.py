"""uvicorn's protocols, with the client's certificate handed to the application.

uvicorn keeps the certificate to itself; these two small subclasses put it (DER) into the scope, under
``extensions["cathedra.peer_certificate"]``. They touch only what uvicorn's own documentation calls the scope.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

__all__ = ["CertificateHTTPProtocol", "CertificateWebSocketProtocol", "peer_certificate"]

EXTENSION = "cathedra.peer_certificate"


def peer_certificate(transport: asyncio.BaseTransport) -> bytes | None:
    """The client's certificate in DER, if the connection has one."""
    ssl_object = transport.get_extra_info("ssl_object")
    certificate: bytes | None = ssl_object.getpeercert(True) if ssl_object is not None else None
    return certificate


class _Handshake(ServerProtocol):
    """Leaves the choice of a sub-protocol to the application, as uvicorn does anyway.

    The library itself would refuse ``SPDY/3.1+portforward.k8s.io`` unseen, for the slash in it.
    """

    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        """None: the application decides."""
        return None


class CertificateHTTPProtocol(HttpToolsProtocol):
    """HTTP requests carry the certificate of their connection."""

    _certificate: bytes | None = None

    def connection_made(self, transport: Any) -> None:
        """Remember the certificate."""
        super().connection_made(transport)
        self._certificate = peer_certificate(transport)

    def on_headers_complete(self) -> None:
        """Put the certificate into the scope before the application sees it."""
        extensions: dict[str, Any] = {EXTENSION: self._certificate}
        self.scope["extensions"] = extensions
        super().on_headers_complete()


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
        self.scope["extensions"] = extensions | {EXTENSION: peer_certificate(self.transport)}
        await super().run_asgi()
