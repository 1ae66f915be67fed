"""The interface between a server and an ASGI application (https://asgi.readthedocs.io): types, the headers and body
of a request, and the certificate of a client.

It stands apart from the protocols, so that an application without a socket loads no server.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from operator import itemgetter
from typing import Any, Final, Self, TypeAlias

import msgspec

Message: TypeAlias = MutableMapping[str, Any]
"""An event of a request or of its response, distinguished by ``type``."""
Scope: TypeAlias = MutableMapping[str, Any]
"""The facts of a request: method, path, headers."""
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApplication: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Called once for each request and each WebSocket."""


Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names and values, in order."""


class RequestHeaders(Pairs):
    """Names in lower case and values, in order; what ASGI's scope has under ``headers``."""

    texts: Mapping[bytes, str]
    """The last value of each name."""
    names: bytes
    """All names, each between line feeds, which no name contains: a search in it finds names by their beginning."""

    def __new__(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Self:
        """Index ``pairs``, whose names are in lower case."""
        headers = super().__new__(cls, pairs)
        headers.texts = {name: value.decode("latin-1") for name, value in headers}
        headers.names = b"\n%b\n" % b"\n\n".join(map(_name, headers)) if headers else b""
        return headers


_name: Final = itemgetter(0)


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the body of a request; None if it has more than ``limit`` bytes. If the client leaves, the body ends."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        # Tested for each part: a body without an announced length must not be collected beyond the limit.
        if size > limit:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


PEER_CERTIFICATE: Final = "cathedra.peer_certificate"
"""ASGI extension under which a request's `PeerCertificate` is found, or None."""


class PeerCertificate(msgspec.Struct, frozen=True):
    """The certificate that a client showed and TLS verified."""

    der: bytes
    fields: Mapping[str, Any]
    """Subject, issuer and the rest, as `ssl.SSLSocket.getpeercert` describes them."""
    ends: float = math.inf
    """The end of its validity, in seconds since the Unix epoch."""

    def has_ended(self, now: float) -> bool:
        """Return True if it is no longer valid. TLS checks that only when a connection begins, and a connection may
        last for as long as its client likes."""
        return now > self.ends


def peer_certificate(transport: asyncio.BaseTransport) -> PeerCertificate | None:
    """Return the client's certificate, if the connection has one."""
    connection = transport.get_extra_info("ssl_object")
    der: bytes | None = connection.getpeercert(True) if connection is not None else None
    if der is None:
        return None
    fields = connection.getpeercert()
    ends = fields.get("notAfter")
    return PeerCertificate(der, fields, math.inf if ends is None else ssl.cert_time_to_seconds(ends))
