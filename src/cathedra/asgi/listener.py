"""An ASGI application on a port. Connections are served here or dealt out among processes."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from cathedra.asgi.dealing import Dealer
from cathedra.asgi.serving import ConnectionServer, TLSFiles

__all__ = ["Listener", "TLSFiles", "bind"]


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free port.

    Raises:
        OSError: the address is in use, or is no address of this machine.
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
    """An application on a listening socket."""

    def __init__(self, app: Any, listening: socket.socket, tls: TLSFiles | None) -> None:
        self._server = ConnectionServer(app, tls)
        self._socket = listening
        self._port: int = listening.getsockname()[1]
        self._dealer: Dealer | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    @property
    def shortage(self) -> str:
        """The reason why connections wait to be accepted; "" if they do not."""
        return self._dealer.shortage if self._dealer is not None else ""

    async def start(self) -> None:
        """Begin to serve; returns once connections are accepted.

        Raises:
            OSError, ssl.SSLError: a file of TLS cannot be read, or is no certificate with its key.
        """
        self._server.start()
        # Not the loop's own server: without a free descriptor, uvloop's closes connections and reports nothing.
        self._dealer = Dealer(self._socket, self._server.serve)

    def deal_to(self, line: socket.socket) -> None:
        """Let the process at the other end of ``line`` serve its share of the connections that come from now on; there
        they arrive as `cathedra.asgi.dealing.DealtConnections`. The line is this listener's to close."""
        assert self._dealer is not None
        self._dealer.join(line)

    def show_certificate(self, certificate: Path, key: Path | None = None) -> None:
        """Show another certificate from the next connection on; without ``key`` the file holds that too.

        Raises:
            ssl.SSLError: they are no certificate with its key.
        """
        self._server.show_certificate(certificate, key)

    async def ended(self) -> None:
        """Wait until it serves no longer; cancelling the wait does not end it."""
        await self._server.ended()

    async def stop(self) -> None:
        """Close every connection and the socket; requests in progress have a second."""
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None
        await self._server.stop()
        self._socket.close()
