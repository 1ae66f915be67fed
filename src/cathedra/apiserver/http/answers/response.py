"""One HTTP answer, and how it goes out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from cathedra.api.boundedcache import is_short
from cathedra.api.status import StatusError
from cathedra.api.struct import encode
from cathedra.asgi.application import Send
from cathedra.asgi.direct import Headers, header_lines

__all__ = ["JSON", "PIECE", "Response", "head_of", "json_response", "send_response", "status_response", "text_response"]

JSON: Final = b"application/json"
PIECE: Final = 1024 * 1024
"""Bytes of a body that are sent at once."""
_FEW_HEADERS: Final = 16
_CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")


class Response(msgspec.Struct, frozen=True):
    """Status, body and headers."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: Headers = ()
    tail: bytes = b""
    """The rest of the body, where joining it would mean to copy much."""


def json_response(value: object, status: int = 200, headers: Headers = ()) -> Response:
    """Plain values as JSON."""
    return Response(status, encode(value), JSON, headers)


def text_response(text: str, status: int = 200) -> Response:
    """Plain text."""
    return Response(status, text.encode(), b"text/plain; charset=utf-8", ((b"x-content-type-options", b"nosniff"),))


def status_response(error: StatusError, warnings: Headers = ()) -> Response:
    """A failure in Kubernetes' form."""
    headers: list[tuple[bytes, bytes]] = list(warnings)
    if error.code == 403:
        headers.append((b"x-content-type-options", b"nosniff"))
    details = error.status.details
    if details is not None and details.retry_after_seconds:
        headers.append((b"retry-after", str(details.retry_after_seconds).encode()))
    return json_response(error.to_json(), error.code, tuple(headers))


def head_of(response: Response, audit_id: bytes, more: bytes = b"") -> bytes:
    """The lines of all headers of an answer, in order, ``more`` lines last; ``audit_id`` is our own, and not looked at.

    Raises:
        RuntimeError: a header has a control character.
    """
    length = len(response.body) + len(response.tail)
    rest = _lines_of(response.headers) + more if response.headers else more
    return b"audit-id: %b\r\n%bcontent-length: %d\r\n%b" % (audit_id, _kind(response.content_type), length, rest)


def _lines_of(headers: Headers) -> bytes:
    """Return the lines of headers that may have any text, as warnings and locations; short ones are kept."""
    is_kept = len(headers) <= _FEW_HEADERS and is_short(*[value for _, value in headers])
    return (header_lines if is_kept else header_lines.__wrapped__)(headers)


@lru_cache(maxsize=64)
def _kind(content_type: bytes) -> bytes:
    """The lines that all answers of one kind have."""
    return header_lines((_CACHE_CONTROL, (b"content-type", content_type)))


async def send_response(send: Send, response: Response, *, audit_id: bytes, head: bool = False) -> None:
    """Send an answer; for HEAD without its body."""
    headers = [
        (b"audit-id", audit_id),
        _CACHE_CONTROL,
        (b"content-type", response.content_type),
        (b"content-length", b"%d" % (len(response.body) + len(response.tail))),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    pieces = [] if head else [*_pieces(response.body), *_pieces(response.tail)]
    last = pieces.pop() if pieces else b""
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": last})


def _pieces(body: bytes) -> Iterator[bytes]:
    """The parts of a body in which it is sent: encrypting a hundred megabytes at once would take a second."""
    return (body[start : start + PIECE] for start in range(0, len(body), PIECE))
