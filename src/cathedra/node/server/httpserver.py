"""Runs the node's ASGI application on a port: uvicorn without its signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from cathedra.node.config import NodeConfig
from cathedra.node.server.app import NodeApp

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


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    """WebSockets with sub-protocols of any name."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Handshake(
            extensions=self.conn.available_extensions, max_size=self.config.ws_max_size, logger=self.logger
        )


class HTTPServer:
    """One application on one socket, until cancelled."""

    def __init__(self, app: NodeApp, listener: socket.socket, config: NodeConfig) -> None:
        self._app = app
        self._listener = listener
        settings = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws=_WebSocketProtocol,
            ssl_certfile=config.certificate,
            ssl_keyfile=config.key,
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
