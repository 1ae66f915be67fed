"""Runs the node's ASGI application on a port, over TLS: uvicorn without its signal handlers.

Client certificates are optional to TLS, because a bearer token does as well; one that is shown has to be signed by the
client authority, else the handshake fails. The application finds the user that it names in the scope.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from cathedra.node.server.app import NodeApp
from cathedra.node.server.authentication import PEER_CERTIFICATE, certificate_user
from cathedra.node.server.tls import NodeTLS

__all__ = ["HTTPServer", "listen"]


def listen(address: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        OSError: the port is taken.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(64)
    except OSError:
        listener.close()
        raise
    return listener


class _QuietServer(uvicorn.Server):
    """Signals belong to whoever runs the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Handshake(ServerProtocol):
    """Leaves the choice of a sub-protocol to the application, as uvicorn does anyway.

    The library itself would refuse ``SPDY/3.1+portforward.k8s.io`` unseen, for the slash in it.
    """

    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        """None: the application decides."""
        return None


def _peer(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """The ASGI extension that tells whose certificate a connection has."""
    connection = transport.get_extra_info("ssl_object")
    certificate = connection.getpeercert(True) if connection is not None else None
    if not certificate:
        return {}
    return {PEER_CERTIFICATE: certificate_user(connection.getpeercert(), certificate)}


class _HTTPProtocol(HttpToolsProtocol):
    """HTTP requests carry the user of their connection's certificate."""

    _extensions: dict[str, Any]

    def connection_made(self, transport: Any) -> None:
        """Remember the certificate."""
        super().connection_made(transport)
        self._extensions = _peer(transport)

    def on_headers_complete(self) -> None:
        """Put the user into the scope before the application sees it."""
        self.scope["extensions"] = dict(self._extensions)
        super().on_headers_complete()


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets with sub-protocols of any name, and the user of their connection's certificate."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Handshake(
            extensions=self.conn.available_extensions, max_size=self.config.ws_max_size, logger=self.logger
        )

    async def run_asgi(self) -> None:
        """Put the user into the scope before the application sees it."""
        extensions: dict[str, Any] = dict(self.scope.get("extensions") or {})
        self.scope["extensions"] = extensions | _peer(self.transport)
        await super().run_asgi()


class HTTPServer:
    """One application on one socket, until cancelled."""

    def __init__(self, app: NodeApp, listener: socket.socket, tls: NodeTLS) -> None:
        self._app = app
        self._listener = listener
        settings = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=_HTTPProtocol,
            ws=_WebSocketProtocol,
            ssl_certfile=tls.certificate,
            ssl_keyfile=tls.key,
            ssl_ca_certs=str(tls.client_authority),
            ssl_cert_reqs=ssl.CERT_OPTIONAL,
            timeout_graceful_shutdown=1,
        )
        self._server = _QuietServer(settings)

    async def run(self) -> None:
        """Serve; open connections get a second to end when this is cancelled."""
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self._app.close()
            self._server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
            self._listener.close()
