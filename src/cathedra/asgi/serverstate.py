"""State that all connections of one server share: the application, open connections, running requests, the date.

`cathedra.asgi.serving` creates it; the protocols of HTTP and WebSocket connections register with it.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Any, Final, Protocol

from cathedra.asgi.application import ASGIApplication
from cathedra.asgi.batching import WriteBatch

KEEP_ALIVE_SECONDS: Final = 90
"""Seconds after which a connection without requests is closed."""


class ServedConnection(Protocol):
    """An open connection, as far as the end of the server concerns it."""

    def shutdown(self) -> None:
        """Finish the response that is being sent, then close."""


class ServerState:
    """State of one server."""

    def __init__(self, app: ASGIApplication, *, keep_alive_seconds: float = KEEP_ALIVE_SECONDS) -> None:
        self.app = app
        self.keep_alive_seconds = keep_alive_seconds
        self.batch = WriteBatch()
        self.connections: set[ServedConnection] = set()
        self.tasks: set[asyncio.Task[None] | None] = set()
        """One for each request that is being handled."""
        self.date = b""
        """The ``date`` header line of responses. The server renews it every second."""
        self.renew_date()

    def renew_date(self) -> None:
        """Set `date` to the current time. Formatting it for each response would cost 2 µs."""
        self.date = b"date: %b\r\n" % formatdate(time.time(), usegmt=True).encode()


def addresses(transport: asyncio.BaseTransport) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """Return the server's and the client's address, as ASGI's scope has them. None for sockets without ports."""
    local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return _address(local), _address(remote)


def _address(info: Any) -> tuple[str, int] | None:
    return (str(info[0]), int(info[1])) if isinstance(info, tuple) and len(info) >= 2 else None
