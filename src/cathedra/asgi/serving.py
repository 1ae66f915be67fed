"""HTTP and TLS on connections, on an event loop that is shared with the rest of the process.

Connections are accepted elsewhere: by this process (`cathedra.asgi.listener`), or by the one that deals them out
(`cathedra.asgi.dealing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.asgi.serverstate import KEEP_ALIVE_SECONDS, ServerState

GRACE_SECONDS: Final = 1
_DATE_SECONDS: Final = 1.0
LOG: Final = logging.getLogger(__name__)


class TLSFiles(msgspec.Struct, frozen=True):
    """Certificate and key of a server, and the authority of its clients' certificates (PEM files)."""

    certificate: Path
    key: Path
    client_authority: Path


class ConnectionServer:
    """An application on connections.

    Client certificates are optional to TLS, because a bearer token does as well; one that is shown has to be signed by
    the client authority, else the handshake fails.
    """

    def __init__(self, app: Any, tls: TLSFiles | None) -> None:
        self._files = tls
        self._tls: ssl.SSLContext | None = None
        self._state = ServerState(app, keep_alive_seconds=KEEP_ALIVE_SECONDS)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        """Connections whose TLS handshake is under way."""

    def start(self) -> None:
        """Begin to serve.

        Raises:
            OSError, ssl.SSLError: a file of TLS cannot be read, or is no certificate with its key.
        """
        if self._files is not None:
            self._tls = _tls_context(self._files)
        self._task = asyncio.create_task(self._keep_date(), name="listener")

    def serve(self, connected: socket.socket) -> None:
        """Serve a connection; it is closed here, also if its client cannot agree on TLS."""
        beginning = asyncio.create_task(self._begin(connected), name="connection")
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    def show_certificate(self, certificate: Path, key: Path | None = None) -> None:
        """Show another certificate from the next connection on; without ``key`` the file holds that too.

        Raises:
            ssl.SSLError: they are no certificate with its key.
        """
        if self._tls is not None:
            self._tls.load_cert_chain(certificate, key)

    async def ended(self) -> None:
        """Wait until it serves no longer; cancelling the wait does not end it."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Close every connection; requests in progress have a second."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        for beginning in tuple(self._beginning):
            beginning.cancel()
        for connection in list(self._state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # idle connections are closed in the next turn of the loop
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._all_closed()
        await self._end_remaining()
        await asyncio.gather(*self._beginning, return_exceptions=True)

    async def _all_closed(self) -> None:
        """Wait until everything is answered and sent."""
        state = self._state
        while state.tasks:
            await asyncio.wait({task for task in state.tasks if task is not None})
        while state.connections:  # noqa: ASYNC110 - protocols that connections were handed to set no event
            await asyncio.sleep(0.02)

    async def _end_remaining(self) -> None:
        """Cancel the streams that are left and close the connections that are left."""
        state = self._state
        tasks = {task for task in state.tasks if task is not None}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(state.connections):
            # A protocol that a connection was led to (`Upgrade.lead_to`) ends it by itself.
            if (transport := getattr(connection, "transport", None)) is not None:
                transport.abort()

    async def _begin(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connected, ssl=self._tls)
        except OSError as error:
            LOG.debug("a connection could not be established: %s", error)
            connected.close()

    def _protocol(self) -> asyncio.Protocol:
        # start-up time: with the first connection; a cluster in one process without a port needs no parser
        from cathedra.asgi.http1 import HTTPProtocol

        return HTTPProtocol(self._state)

    async def _keep_date(self) -> None:
        """Renew the date of responses every second until the server stops."""
        while not self._stopping.is_set():
            self._state.renew_date()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()


def _tls_context(files: TLSFiles) -> ssl.SSLContext:
    """Return the server's side of TLS 1.2 and 1.3, as Python's defaults for servers restrict it.

    Raises:
        OSError, ssl.SSLError: a file cannot be read, or is no certificate with its key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.client_authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    _forbid_resumption(context)
    return context


def _forbid_resumption(context: ssl.SSLContext) -> None:
    """Give out no session tickets: each resumed session would get another, and the certificate that began the first
    would not be verified again, whether it has ended or its authority was replaced."""
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
