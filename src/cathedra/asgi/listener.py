"""An application on a socket: uvicorn with TLS, on an event loop that is shared with the rest of the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["Listener", "TLSFiles", "bind"]

BACKLOG: Final = 2048
GRACE_SECONDS: Final = 1
KEEP_ALIVE_SECONDS: Final = 90
"""For which a connection without requests stays open."""
_DATE_SECONDS: Final = 1.0


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

    def __init__(self, app: Any, listening: socket.socket, tls: TLSFiles | None) -> None:
        # A cluster in one process without a port needs no server, and uvicorn is a tenth of a second.
        import uvicorn

        from cathedra.asgi.protocols import CertificateHTTPProtocol

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
            http=CertificateHTTPProtocol,
            ws=websockets,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            date_header=True,
            backlog=BACKLOG,
            ws_max_size=32 * 1024 * 1024,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            **options,
        )
        self._server = uvicorn.Server(config)
        self._socket = listening
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self) -> None:
        """Begin to serve; returns once connections are accepted."""
        config = self._server.config
        if not config.loaded:
            config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[self._socket])
        self._task = asyncio.create_task(self._keep_date(), name="listener")

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
        """Close every connection and the socket; what is being answered has a second."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        server = self._server
        for each in server.servers:
            each.close()
        self._socket.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        # An idle connection is closed in the next turn, and uvicorn would look for that a tenth of a second later.
        await asyncio.sleep(0)
        if server.server_state.connections or server.server_state.tasks:
            await server.shutdown()

    async def _keep_date(self) -> None:
        """Have the date of answers made anew each second; uvicorn's own loop would wake ten times for it."""
        while not self._stopping.is_set():
            await self._server.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()


def _websocket_protocol(**options: Any) -> asyncio.Protocol:
    # start-up time: with the first WebSocket
    from cathedra.asgi.websockets import CertificateWebSocketProtocol

    return CertificateWebSocketProtocol(**options)
