"""Heads of requests that come again, byte for byte, and are not parsed again.

A client says the same with nearly every request: its headers are those of the last one, and it asks for one of a few
resources. What httptools made of a request line, and of the lines of headers below it, holds for the same bytes
whenever they come, in any combination; so both are kept, for all connections of a server. Whatever is out of the
ordinary is not: upgrades, bodies without a length or with ``Expect``, connections that are to be closed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from cathedra.asgi.headers import RequestHeaders

__all__ = ["KEPT_BYTES", "LINES", "Known", "KnownHeads", "RequestLine"]

LINES: Final = 1024
"""Request lines that are kept, and as many sets of headers."""
KEPT_BYTES: Final = 4096
"""Of a head that is kept; others are rare."""
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_VERSION: Final = b" HTTP/1.1"
_NEVER_KEPT: Final = (b"\nupgrade", b"\nexpect", b"\ntransfer-encoding")
"""Headers whose request is not only answered, in `RequestHeaders.names`."""


class RequestLine(msgspec.Struct, frozen=True):
    """What the first line of a request says."""

    method: str
    path: str
    raw_path: bytes
    query: bytes


class Known(msgspec.Struct, frozen=True):
    """A request whose head was known."""

    line: RequestLine
    headers: RequestHeaders
    body: bytes


class KnownHeads:
    """The heads that the connections of a server have had."""

    def __init__(self) -> None:
        self._lines: dict[bytes, RequestLine] = {}
        self._headers: dict[bytes, tuple[RequestHeaders, int]] = {}
        self._last: tuple[bytes, int, RequestLine, RequestHeaders] | None = None
        """The head that was found last, how long its request is, and what it says; the next one is mostly the same."""

    def find(self, data: bytes) -> Known | None:
        """The request that ``data`` is, from its first byte to its last, if its head is known."""
        if self._last is not None:
            head, length, asked, headers = self._last
            if len(data) == length and data.startswith(head):
                return Known(asked, headers, data[len(head) :])
        mark = data.find(_LINE_END)
        line = self._lines.get(data[:mark])
        if line is None:
            return None
        end = data.find(_HEAD_END, mark) + len(_HEAD_END)
        found = self._headers.get(data[mark:end])
        if found is None or len(data) - end != found[1]:
            return None
        self._last = data[:end], len(data), line, found[0]
        return Known(line, found[0], data[end:])

    def learn(self, data: bytes, scope: Any, body_bytes: int) -> None:
        """``data`` was parsed as one request, described by ``scope``, with a body of so many bytes; the connection
        stays open."""
        headers: RequestHeaders = scope["headers"]
        mark, end = data.find(_LINE_END), data.find(_HEAD_END) + len(_HEAD_END)
        if len(data) - end != body_bytes or end > KEPT_BYTES:
            return
        if not data.endswith(_VERSION, 0, mark) or any(name in headers.names for name in _NEVER_KEPT):
            return
        line = RequestLine(scope["method"], scope["path"], scope["raw_path"], scope["query_string"])
        _keep(self._lines, data[:mark], line)
        _keep(self._headers, data[mark:end], (headers, body_bytes))


def _keep(known: dict[bytes, Any], key: bytes, value: Any) -> None:
    """Remember a value, and forget the oldest for it."""
    if len(known) >= LINES and key not in known:
        del known[next(iter(known))]
    known[key] = value
