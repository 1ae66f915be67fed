"""Runs the node's ASGI application on a port: uvicorn without its signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from cathedra.node.config import NodeConfig

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


class HTTPServer:
    """One application on one socket, until cancelled."""

    def __init__(self, app: Any, listener: socket.socket, config: NodeConfig) -> None:
        self._listener = listener
        settings = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="websockets-sansio",
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
            self._server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
            self._listener.close()
