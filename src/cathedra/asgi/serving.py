"""HTTP on connections: uvicorn with TLS, on an event loop that is shared with the rest of the process.

Where connections come from is another matter: from sockets that are listened on here (`cathedra.asgi.listener`), or
from the process that accepts them (`cathedra.asgi.dealing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.asgi.knownheads import KnownHeads

__all__ = ["ConnectionServer", "TLSFiles"]

BACKLOG: Final = 2048
GRACE_SECONDS: Final = 1
KEEP_ALIVE_SECONDS: Final = 90
"""For which a connection without requests stays open."""
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
        # A cluster in one process without a port needs no server, and uvicorn is a tenth of a second.
        import uvicorn

        from cathedra.asgi.gathering import Turn
        from cathedra.asgi.protocols import CertificateHTTPProtocol

        http: Any = functools.partial(CertificateHTTPProtocol, heads=KnownHeads(), turn=Turn())
        websockets: Any = _websocket_protocol
        options: dict[str, Any] = {}
        if tls is not None:
            options = {
                "ssl_certfile": str(tls.certificate),
                "ssl_keyfile": str(tls.key),
                "ssl_ca_certs": str(tls.client_authority),
                "ssl_cert_reqs": ssl.CERT_OPTIONAL,
            }
        config = uvicorn.Config(
            app,
            http=http,
            ws=websockets,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            date_header=True,
            backlog=BACKLOG,
            ws_max_size=32 * 1024 * 1024,
            ws_per_message_deflate=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            **options,
        )
        self._server = uvicorn.Server(config)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        """Connections whose TLS is being agreed on."""

    async def start(self, *listening: socket.socket) -> None:
        """Begin to serve; returns once connections are accepted on these sockets."""
        config = self._server.config
        if not config.loaded:
            config.load()
        if config.ssl is not None:
            _forbid_resumption(config.ssl)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=list(listening))
        self._task = asyncio.create_task(self._keep_date(), name="listener")

    def serve(self, connected: socket.socket) -> None:
        """Serve a connection that was accepted elsewhere; it is closed here, also if its client cannot agree on TLS."""
        beginning = asyncio.create_task(self._begin(connected), name="connection")
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    def stop_accepting(self) -> None:
        """Close the sockets that are listened on; connections go on."""
        for each in self._server.servers:
            each.close()

    def show_certificate(self, certificate: Path, key: Path | None = None) -> None:
        """Show another certificate from the next connection on; without ``key`` the file holds that too.

        Raises:
            ssl.SSLError: they are no certificate with its key.
        """
        context = self._server.config.ssl
        if context is not None:
            context.load_cert_chain(certificate, key)

    async def ended(self) -> None:
        """Wait until it serves no longer; cancelling the wait does not end it."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Close every connection; what is being answered has a second."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        self.stop_accepting()
        for beginning in tuple(self._beginning):
            beginning.cancel()
        server = self._server
        for connection in list(server.server_state.connections):
            connection.shutdown()
        # An idle connection is closed in the next turn, and uvicorn would look for that a tenth of a second later.
        await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._all_closed()
        await self._end_remaining()
        await asyncio.gather(*self._beginning, return_exceptions=True)

    async def _all_closed(self) -> None:
        """Wait until everything is answered and sent."""
        state = self._server.server_state
        while state.tasks:
            await asyncio.wait(set(state.tasks))
        while state.connections:  # noqa: ASYNC110 - uvicorn's protocols set no event
            await asyncio.sleep(0.02)

    async def _end_remaining(self) -> None:
        """End streams and connections that are left. That is ordinary: uvicorn would log it as errors."""
        state = self._server.server_state
        tasks = set(state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(state.connections):
            # A protocol that a connection was led to (`Upgrade.lead_to`) ends it by itself.
            if (transport := getattr(connection, "transport", None)) is not None:
                transport.abort()

    async def _begin(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        loop, tls = asyncio.get_running_loop(), self._server.config.ssl
        try:
            await loop.connect_accepted_socket(self._protocol, connected, ssl=tls)
        except OSError as error:
            LOG.debug("a connection did not come about: %s", error)
            connected.close()

    def _protocol(self) -> asyncio.Protocol:
        server = self._server
        made: asyncio.Protocol = server.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn does
            config=server.config, server_state=server.server_state, app_state=server.lifespan.state
        )
        return made

    async def _keep_date(self) -> None:
        """Have the date of answers made anew each second; uvicorn's own loop would wake ten times for it."""
        while not self._stopping.is_set():
            await self._server.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()


def _forbid_resumption(context: ssl.SSLContext) -> None:
    """Give out no session tickets: each resumed session would get another, and the certificate that began the first
    would not be verified again, whether it has ended or its authority was replaced."""
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET


def _websocket_protocol(**options: Any) -> asyncio.Protocol:
    # start-up time: with the first WebSocket
    from cathedra.asgi.websockets import CertificateWebSocketProtocol

    return CertificateWebSocketProtocol(**options)
