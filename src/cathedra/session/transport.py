"""Connections to an API server that speak the binary protocol, and a user's transport over one of them.

`UnixConnection` leads to the socket of a server on this machine, and carries many users. `UpgradedConnection` leads to
the port of a server: it begins as HTTP over TLS, requests an upgrade, and goes on as the one user of its credential.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cathedra.api.struct import encode
from cathedra.asgi.upgrade import SESSION
from cathedra.client.denials import Denials
from cathedra.client.transport import APICall, BatchedEvents, WatchEvent
from cathedra.session.connection import ProtocolRefused, SessionConnection
from cathedra.session.protocol import SESSION_PATH, RequestMessage, RequestOptions

CONNECT_SECONDS: Final = 30.0
"""For the connection, TLS and the answer to the upgrade."""
HEAD_BYTES: Final = 64 * 1024
"""Limit of the head of the answer to the upgrade."""
_HTTPS: Final = 443
_SWITCHED: Final = b"101"
_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)
"""The loss of a server's machine is noticed within a minute: all requests of a process depend on one connection."""
_CREDENTIALS: Final = struct.Struct("3i")
"""The kernel's ``ucred``: process, user and group."""
_NO_OPTIONS: Final = RequestOptions()


class SessionTransport:
    """A `cathedra.client.transport.Transport` of one user over a connection, which its opener closes."""

    def __init__(self, connection: SessionConnection, token: str, *, agent: str = "cathedra") -> None:
        self._connection = connection
        self._user = connection.attach(token, agent)

    async def call(self, call: APICall) -> Any:
        """Send a call and wait for its result."""
        # The request is numbered here and not earlier: a coroutine that is never awaited must use up no number.
        return await self._connection.request(self._request(call), probe=call.selection.probe)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until the server ends the stream or the context exits."""
        stream = await self._connection.watch(self._request(call))
        try:
            yield BatchedEvents(stream.batches())
        finally:
            stream.close()

    async def close(self) -> None:
        """Do nothing: the connection may have other users."""

    def _request(self, call: APICall) -> RequestMessage:
        connection, ref = self._connection, call.ref
        return RequestMessage(
            connection.next_id(),
            self._user,
            call.verb,
            ref.group,
            ref.version,
            ref.resource,
            # The server reads a message as the HTTP request of its path, where these have no namespace.
            call.namespace if ref.namespaced else "",
            call.name,
            call.subresource,
            connection.form_of(ref.type),
            options_of(call),
            b"" if call.body is None else encode(call.body),
        )


def options_of(call: APICall) -> RequestOptions:
    """Return the selection or the write options of a call, in the form of the protocol."""
    if call.verb in ("get", "delete"):
        return _NO_OPTIONS
    if call.verb in ("list", "watch", "deletecollection"):
        selection = call.selection
        return RequestOptions(
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            limit=selection.limit,
            continue_=selection.continue_,
            resource_version=selection.resource_version,
            resource_version_match=selection.resource_version_match,
            bookmarks=call.verb == "watch" and selection.bookmarks,
        )
    options = call.options
    return RequestOptions(
        dry_run=options.dry_run,
        field_manager=options.field_manager,
        field_validation=options.field_validation,
        force=options.force,
        patch_type="" if call.patch_type is None else call.patch_type.name,
    )


def peer_user(transport: asyncio.BaseTransport) -> int:
    """Return the user ID of the process at the other end of a unix socket, by the kernel's record.

    Raises:
        OSError: the connection is lost.
    """
    connection = transport.get_extra_info("socket")
    shown = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(shown)
    return int(user)


class UnixConnection(SessionConnection):
    """A connection to the socket of an API server that runs as the same user."""

    def __init__(self, path: Path, denials: Denials | None = None) -> None:
        super().__init__(str(path), denials)
        self._path = path

    async def dial(self) -> None:
        """Connect, if a process of the same user listens there.

        Raises:
            OSError: nothing listens there, or another user's process does.
        """
        transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, str(self._path))
        # Tokens are sent with the first request; a server of another user must not see them.
        if peer_user(transport) != os.geteuid():
            transport.close()
            raise ConnectionRefusedError("another user's process listens there")


class UpgradedConnection(SessionConnection):
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
        """``server`` is its URL; ``authorization`` returns that header for each connection, or "" for none."""
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
        """Connect and request the upgrade.

        Raises:
            ProtocolRefused: the server does not switch protocols.
            OSError: it cannot be reached, or TLS fails.
        """
        # The token is read for each connection: it may have been renewed since the last one.
        loop, request = asyncio.get_running_loop(), self._upgrade_request(await self._authorization())
        answered: asyncio.Future[None] = loop.create_future()
        transport: asyncio.BaseTransport | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, _ = await loop.create_connection(
                    lambda: _Upgrading(request, answered, self),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
                await answered
        except BaseException as error:
            # Also on cancellation: otherwise a connection would stay open that nothing refers to.
            answered.cancel()
            if transport is not None:
                transport.close()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer within {CONNECT_SECONDS:g} s") from None
            raise

    def _upgrade_request(self, authorization: str) -> bytes:
        lines = [
            f"GET {self._path} HTTP/1.1",
            f"Host: {self._authority}",
            f"User-Agent: {self._agent}",
            "Connection: Upgrade",
            f"Upgrade: {SESSION.decode()}",
            *([f"Authorization: {authorization}"] if authorization else []),
        ]
        return "\r\n".join((*lines, "", "")).encode("latin-1")


class _Upgrading(asyncio.Protocol):
    """A connection until the answer to the upgrade."""

    def __init__(self, request: bytes, answered: asyncio.Future[None], following: asyncio.Protocol) -> None:
        self._request = request
        self._answered = answered
        self._following = following
        self._transport: Any = None
        self._head = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the keep-alive of the connection and send the upgrade request."""
        self._transport = transport
        connection = transport.get_extra_info("socket")
        for level, option, value in _ALIVE:
            connection.setsockopt(level, option, value)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Switch to the following protocol if the server answers 101."""
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
        # The server may have sent frames right behind its answer; the transport will not deliver them again.
        if rest:
            self._following.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the upgrade if it was not answered."""
        if not self._answered.done():
            self._answered.set_exception(exc or ConnectionResetError("the server has closed the connection"))

    def _refused(self, why: str) -> None:
        # The rest of the answer is not read: the request is sent again over HTTP, on a connection of its own.
        self._answered.set_exception(ProtocolRefused(why))
        self._transport.close()
