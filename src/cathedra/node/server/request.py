"""A request to the node's server, parsed once."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

import msgspec

from cathedra.api.status import bad_request
from cathedra.asgi.application import Receive, Scope, Send
from cathedra.asgi.upgrade import UPGRADE, Upgrade

_MOST: Final = 2**63 - 1
_MOST_PARAMETERS: Final = 1000
_TRUE: Final = frozenset({"true", "1"})


class NodeRequest(msgspec.Struct, frozen=True):
    """A request or WebSocket; ``parts`` are those of the path."""

    protocol: str
    """The scope's type: ``http`` or ``websocket``."""
    method: str
    path: str
    parts: tuple[str, ...]
    query: dict[str, list[str]]
    subprotocols: tuple[str, ...]
    """Sub-protocols that a WebSocket offers."""
    stream_protocols: tuple[str, ...]
    """Stream protocols that an upgrade request offers."""
    upgrade: Upgrade | None
    """Connection of a request to upgrade to SPDY; None for others."""
    receive: Receive
    send: Send

    @property
    def streams(self) -> bool:
        """Return True if it requests streams, as WebSocket or as upgrade."""
        return self.protocol == "websocket" or self.upgrade is not None

    def flag(self, *names: str) -> bool:
        """Return True if one of the parameters is set to true."""
        return any(self.query.get(name, [""])[0].lower() in _TRUE for name in names)

    def number(self, name: str, *, least: int) -> int:
        """Return a query parameter as a number.

        Raises:
            StatusError: 400, it is no number or out of range.
        """
        try:
            number = int(self.query[name][0])
        except ValueError as error:
            raise bad_request(f"{name} must be a number") from error
        if number < least:
            raise bad_request(f"{name} must be at least {least}")
        if number > _MOST:
            raise bad_request(f"{name} must be at most {_MOST}")
        return number


def parsed(scope: Scope, receive: Receive, send: Send) -> NodeRequest:
    """The request of an ASGI scope.

    Raises:
        StatusError: 400, its query cannot be read.
    """
    try:
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from error
    return NodeRequest(
        protocol=scope["type"],
        method=scope.get("method", "GET"),
        path=scope["path"],
        parts=tuple(scope["path"].removeprefix("/").split("/")),
        query=query,
        subprotocols=tuple(scope.get("subprotocols", ())),
        stream_protocols=_stream_protocols(scope),
        upgrade=scope.get("extensions", {}).get(UPGRADE),
        receive=receive,
        send=send,
    )


def _stream_protocols(scope: Scope) -> tuple[str, ...]:
    """The header may come once with a list, or several times."""
    offered = [value for name, value in scope["headers"] if name == b"x-stream-protocol-version"]
    return tuple(each.strip() for value in offered for each in value.decode("latin-1").split(",") if each.strip())
