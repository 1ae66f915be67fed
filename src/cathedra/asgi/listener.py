"""An application on a socket, with TLS, on an event loop that is shared with the rest of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from pathlib import Path
from typing import Final

import msgspec

from cathedra.asgi.serving import Application, Serving
from cathedra.clock import SystemClock

__all__ = ["Listener", "TLSFiles", "bind"]

BACKLOG: Final = 2048
GRACE_SECONDS: Final = 1
_DATE_SECONDS: Final = 1.0
_CLOCK: Final = SystemClock()
"""The date of an answer is the real one, whatever time the application has."""
_LOG = logging.getLogger(__name__)


class TLSFiles(msgspec.Struct, frozen=True):
    """Certificate and key of a server, and the authority of its clients' certificates (PEM files)."""

    certificate: Path
    key: Path
    client_authority: Path


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one.

    Raises:
        OSError: the address is in use or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


class Listener:
    """An application on a socket.

    Client certificates are optional to TLS, because a bearer token does as well; one that is shown has to be signed by
    the client authority, else the handshake fails.
    """

    def __init__(self, app: Application, listening: socket.socket, tls: TLSFiles | None) -> None:
        self._serving = Serving(app)
        self._socket = listening
        self._context = None if tls is None else _context(tls)
        self._server: asyncio.Server | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self) -> None:
        """Begin to serve; returns once connections are accepted."""
        # A cluster in one process without a port needs no server, and loads no parser for it.
        from cathedra.asgi.protocols import HTTPProtocol

        loop, serving = asyncio.get_running_loop(), self._serving
        serving.set_date(_CLOCK.now())
        self._server = await loop.create_server(
            lambda: HTTPProtocol(serving, loop), sock=self._socket, ssl=self._context, backlog=BACKLOG
        )
        self._task = asyncio.create_task(self._keep_date(), name="listener")

    def show_certificate(self, certificate: Path, key: Path | None = None) -> None:
        """Show another certificate from the next connection on; without ``key`` the file holds that too.

        Raises:
            ssl.SSLError: they are no certificate with its key.
        """
        if self._context is not None:
            self._context.load_cert_chain(certificate, key)

    async def ended(self) -> None:
        """Wait until it serves no longer; cancelling the wait does not end it."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Close every connection and the socket; what is being answered has a second."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        if self._server is not None:
            self._server.close()
        self._socket.close()
        serving = self._serving
        for connection in serving.connections:
            connection.shutdown()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await serving.connections.wait_none()
                if serving.tasks:
                    await asyncio.wait(serving.tasks)
        except TimeoutError:
            _LOG.warning("%d requests are broken off: the server ends", len(serving.tasks))
            for task in serving.tasks:
                task.cancel()

    async def _keep_date(self) -> None:
        """Have the date of answers made anew each second."""
        while not self._stopping.is_set():
            self._serving.set_date(_CLOCK.now())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()


def _context(tls: TLSFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(tls.client_authority)
    return context
