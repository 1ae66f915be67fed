"""A client without limits of its own: requests of any size, sessions and upgrades whose data is never read.

Well-behaved clients bound and pace what they send, so the attacks speak HTTP/1.1 over their own sockets.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cathedra.frames import write_frame
from cathedra.session.protocol import PROTOCOL, SESSION_PATH, Attach

__all__ = ["Answer", "Connection", "Server", "User"]

HEAD_LIMIT: Final = 1 << 20
MESSAGES: Final = 8000
"""Messages of one frame of a session."""


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """Address of the API server, and the authority of its certificate in PEM."""

    port: int
    authority: str
    statuses: Counter[int] = field(default_factory=Counter)
    """Number of responses by status."""


class Connection:
    """One TLS connection, with the credentials of its user."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, statuses: Counter[int]
    ) -> None:
        self.reader, self.writer = reader, writer
        self._token = token
        self._statuses = statuses

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    async def drain(self) -> None:
        """Wait until the socket has taken most of what was written."""
        await self.writer.drain()

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str
    ) -> None:
        """Send a request without waiting for the answer."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Type: {content_type}"]
        lines += [
            f"Content-Length: {len(raw)}",
            *(f"{name.replace('_', '-')}: {text}" for name, text in headers.items()),
        ]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        self.writer.write("\r\n".join((*lines, "", "")).encode() + raw)

    async def answer(self) -> Answer:
        """Read the head of a response, and its body if it has a length or is chunked.

        Raises:
            OSError: the server has closed the connection.
        """
        status, headers = await self.head()
        if headers.get("transfer-encoding", "") == "chunked":
            return Answer(status, headers, await self._chunks())
        return Answer(status, headers, await self.reader.readexactly(int(headers.get("content-length", 0))))

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers of a response alone."""
        try:
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the server closed the connection") from error
        pairs = (line.partition(":") for line in lines[1:] if line)
        status = int(lines[0].split(" ")[1])
        self._statuses[status] += 1
        return status, {name.lower(): text.strip() for name, _, text in pairs}

    async def _chunks(self) -> bytes:
        pieces = []
        while size := int(await self.reader.readline(), 16):
            pieces.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return b"".join(pieces)

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str
    ) -> Answer:
        """Send a request and read the answer."""
        self.request(method, path, body, content_type, **headers)
        return await self.answer()

    def stop_reading(self) -> None:
        """Leave all that comes from now on in the socket."""
        transport: Any = self.writer.transport
        transport.pause_reading()

    def abort(self) -> None:
        """Close without a goodbye, as a client that has died."""
        self.writer.transport.abort()


class User:
    """A user with a token, a client certificate or neither."""

    def __init__(self, server: Server, *, token: str = "", certificate: Path | None = None) -> None:
        self.server = server
        self.token = token
        self._tls = ssl.create_default_context(cadata=server.authority)
        self._tls.check_hostname = False
        if certificate is not None:
            self._tls.load_cert_chain(certificate)

    async def connect(self) -> Connection:
        """A new connection."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=self._tls, limit=HEAD_LIMIT, ssl_handshake_timeout=60
        )
        return Connection(reader, writer, self.token, self.server.statuses)

    async def send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """Send one request on a connection of its own."""
        connection = await self.connect()
        try:
            return await connection.send(method, path, body, content_type)
        finally:
            connection.abort()

    async def create(self, path: str, body: Any) -> Answer:
        """Create an object that an attack needs.

        Raises:
            RuntimeError: it is refused.
        """
        answer = await self.send("POST", path, body)
        if answer.status >= 300:
            raise RuntimeError(f"POST {path}: {answer.status} {answer.body[:500].decode()}")
        return answer

    async def create_many(self, path: str, bodies: Sequence[Any], *, at_once: int = 8) -> None:
        """Create objects over some connections.

        Raises:
            RuntimeError: one is refused.
        """
        connections = [await self.connect() for _ in range(at_once)]

        async def some(first: int) -> None:
            for body in bodies[first::at_once]:
                answer = await connections[first].send("POST", path, body)
                if answer.status >= 300:
                    raise RuntimeError(f"POST {path}: {answer.status} {answer.body[:500].decode()}")

        await asyncio.gather(*(some(first) for first in range(at_once)))
        for connection in connections:
            connection.abort()

    async def session(self, messages: Sequence[Any] = ()) -> Connection:
        """A session in the binary protocol, that was sent messages and is not read.

        Raises:
            RuntimeError: the server does not offer it.
        """
        connection = await self.connect()
        connection.request("GET", SESSION_PATH, Connection="Upgrade", Upgrade="cathedra-session/2")
        status, _ = await connection.head()
        if status != 101:
            raise RuntimeError(f"no session was offered: {status}")
        connection.stop_reading()
        for start in range(0, max(len(messages), 1), MESSAGES):
            connection.write(write_frame([Attach(PROTOCOL, 0, ""), *messages[start : start + MESSAGES]]))
        return connection

    async def upgraded(self, path: str, protocol: str, **headers: str) -> tuple[Connection, dict[str, str]]:
        """A connection that was upgraded to WebSocket or SPDY, and the headers of the answer.

        Raises:
            RuntimeError: the upgrade is refused.
        """
        connection = await self.connect()
        if protocol == "websocket":
            headers = {
                "Sec_WebSocket_Key": base64.b64encode(bytes(16)).decode(),
                "Sec_WebSocket_Version": "13",
            } | headers
        method = "GET" if protocol == "websocket" else "POST"
        connection.request(method, path, Connection="Upgrade", Upgrade=protocol, **headers)
        status, answered = await connection.head()
        if status != 101:
            text = await connection.reader.read(500)
            connection.abort()
            raise RuntimeError(f"{path} was not upgraded: {status} {text.decode(errors='replace')}")
        return connection, answered
