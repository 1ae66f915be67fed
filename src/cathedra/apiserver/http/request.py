"""One HTTP request, read as far as it is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

from cathedra.api.status import failure
from cathedra.apiserver.authentication.user import UserInfo

__all__ = ["BODY_LIMIT", "ClientGone", "Receive", "Request", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_LIMIT: Final = 3 * 1024 * 1024
_NO_QUERY: Final[dict[str, list[str]]] = {}


class ClientGone(ConnectionError):
    """The client went away before its request was complete."""


class Request:
    """Method, path, query, headers, body and caller."""

    __slots__ = (
        "_body",
        "_headers",
        "_query",
        "annotations",
        "created_name",
        "method",
        "path",
        "receive",
        "scope",
        "user",
    )

    def __init__(self, scope: Scope, receive: Receive, user: UserInfo) -> None:
        self.scope = scope
        self.receive = receive
        self.user = user
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self._query: dict[str, list[str]] | None = None
        self.annotations: dict[str, str] = {}
        """What the audit log is to say of the request beside what it sees itself."""
        self.created_name = ""
        """The name of the object that it created."""
        self._headers: dict[bytes, bytes] | None = None
        self._body: bytes | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        """Every query parameter with its values."""
        if self._query is None:
            raw: bytes = self.scope["query_string"]
            self._query = parse_qs(raw.decode("latin-1"), keep_blank_values=True) if raw else _NO_QUERY
        return self._query

    def parameter(self, name: str) -> str:
        """The first value of a query parameter, or ""."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Whether a query parameter says true."""
        values = self.query.get(name) or [""]
        return values[0].lower() not in {"", "false", "0", "f"}

    def header(self, name: bytes) -> str:
        """A header's value, or "". ``name`` in lower case."""
        if self._headers is None:
            self._headers = dict(self.scope["headers"])
        return self._headers.get(name, b"").decode("latin-1")

    def header_values(self, name: bytes) -> list[str]:
        """All values of a header."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    @property
    def read_body(self) -> bytes:
        """The body as far as somebody has read it."""
        return self._body or b""

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            StatusError: 413, it is longer than 3 MiB.
            ClientGone: the client went away.
        """
        if self._body is None:
            self._body = await self._read()
        return self._body

    async def _read(self) -> bytes:
        chunks, size = [], 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone(self.path)
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > BODY_LIMIT:
                raise failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
