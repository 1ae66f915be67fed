"""uvicorn's WebSocket protocol, with the client's certificate handed to the application.

Apart from HTTP's, for the library behind it costs a start 20 ms: the first WebSocket loads it.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from cathedra.asgi.peercertificate import PEER_CERTIFICATE, peer_certificate

__all__ = ["CertificateWebSocketProtocol"]


class CertificateWebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets carry the certificate of their connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Handshake(
            extensions=self.conn.available_extensions, max_size=self.config.ws_max_size, logger=self.logger
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection; the library's parser refers to itself, and would stay with all that it has read."""
        super().connection_lost(exc)
        self.conn.parser.close()

    async def run_asgi(self) -> None:
        """Put the certificate into the scope before the application sees it."""
        extensions: dict[str, Any] = dict(self.scope.get("extensions") or {})
        self.scope["extensions"] = extensions | {PEER_CERTIFICATE: peer_certificate(self.transport)}
        await super().run_asgi()


class _Handshake(ServerProtocol):
    """Leaves the choice of a sub-protocol to the application, as uvicorn does anyway.

    The library itself would refuse ``SPDY/3.1+portforward.k8s.io`` unseen, for the slash in it.
    """

    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        """None: the application decides."""
        return None
