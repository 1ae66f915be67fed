"""The certificate of a request's connection, as an application finds it in the scope.

Apart from the protocols, so that an application without a socket loads no server.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Mapping
from typing import Any, Final

import msgspec

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
    """The client's certificate, if the connection has one."""
    connection = transport.get_extra_info("ssl_object")
    der: bytes | None = connection.getpeercert(True) if connection is not None else None
    if der is None:
        return None
    fields = connection.getpeercert()
    ends = fields.get("notAfter")
    return PeerCertificate(der, fields, math.inf if ends is None else ssl.cert_time_to_seconds(ends))
