"""The protocol over the port of an API server: a connection that has left HTTP, by an upgrade that is asked for first.

A server that is no Cathedra answers the question as any other, or refuses it: then there is no such connection.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from cathedra.asgi.upgrade import SESSION
from cathedra.client.denials import Denials
from cathedra.client.local.connection import Connection, ProtocolRefused
from cathedra.client.local.messages import SESSION_PATH

__all__ = ["UpgradedConnection"]

CONNECT_SECONDS: Final = 30.0
"""For the connection, TLS and the answer to the question."""
HEAD_BYTES: Final = 64 * 1024
"""That an answer's head may have."""
_HTTPS: Final = 443
_SWITCHED: Final = b"101"
_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)
"""A machine that has gone without a word is noticed in a minute: all requests of a process are on one connection."""


class UpgradedConnection(Connection):
    """A connection to the port of an API server, as one user."""

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext,
        *,
        server_name: str | None,
        agent: str,
        authorization: Callable[[], Awaitable[str]],
        denials: Denials | None = None,
    ) -> None:
        """``server`` is its URL; ``authorization`` makes the header of that name for each connection, "" for none."""
        super().__init__(server, denials)
        url = urlsplit(server)
        self._host, self._port = url.hostname or "", url.port or _HTTPS
        self._path = url.path.rstrip("/") + SESSION_PATH
        self._authority = url.netloc.rpartition("@")[2]
        self._tls = tls
        self._server_name = server_name or self._host
        self._agent = agent
        self._authorization = authorization

    async def dial(self) -> None:
        """Connect, and ask for the upgrade.

        Raises:
            ProtocolRefused: the server answers otherwise.
            OSError: it cannot be reached, or TLS fails.
        """
        loop, question = asyncio.get_running_loop(), self._question(await self._authorization())
        answered: asyncio.Future[None] = loop.create_future()
        transport: asyncio.BaseTransport | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, _ = await loop.create_connection(
                    lambda: _Asking(question, answered, self),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
                await answered
        except BaseException as error:
            answered.cancel()
            if transport is not None:
                transport.close()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer within {CONNECT_SECONDS:g} s") from None
            raise

    def _question(self, authorization: str) -> bytes:
        lines = [
            f"GET {self._path} HTTP/1.1",
            f"Host: {self._authority}",
            f"User-Agent: {self._agent}",
            "Connection: Upgrade",
            f"Upgrade: {SESSION.decode()}",
            *([f"Authorization: {authorization}"] if authorization else []),
        ]
        return "\r\n".join((*lines, "", "")).encode("latin-1")


class _Asking(asyncio.Protocol):
    """A connection until its question for the upgrade is answered."""

    def __init__(self, question: bytes, answered: asyncio.Future[None], following: asyncio.Protocol) -> None:
        self._question = question
        self._answered = answered
        self._following = following
        self._transport: Any = None
        self._head = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = transport
        connection = transport.get_extra_info("socket")
        for level, option, value in _ALIVE:
            connection.setsockopt(level, option, value)
        self._transport.write(self._question)

    def data_received(self, data: bytes) -> None:
        """Let the protocol follow that the server switches to."""
        if self._answered.done():
            return
        self._head += data
        head, end, rest = bytes(self._head).partition(b"\r\n\r\n")
        if not end:
            if len(self._head) > HEAD_BYTES:
                self._refused("its answer has no end")
            return
        status, *headers = head.split(b"\r\n")
        names = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in headers)]
        if status.split(b" ")[1:2] != [_SWITCHED] or (b"upgrade", SESSION) not in names:
            self._refused(status.decode("latin-1"))
            return
        self._transport.set_protocol(self._following)
        self._following.connection_made(self._transport)
        self._answered.set_result(None)
        if rest:
            self._following.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up without an answer."""
        if not self._answered.done():
            self._answered.set_exception(exc or ConnectionResetError("the server has closed the connection"))

    def _refused(self, why: str) -> None:
        self._answered.set_exception(ProtocolRefused(why))
        self._transport.close()
