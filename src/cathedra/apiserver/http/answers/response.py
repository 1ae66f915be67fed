"""One HTTP answer, its compression (docs/spec/apimachinery.md §1), and how it is sent."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

import msgspec

from cathedra.api.boundedcache import is_short
from cathedra.api.status import StatusError
from cathedra.api.struct import encode
from cathedra.asgi.application import Send
from cathedra.asgi.direct import Headers, header_lines, lines_of

JSON: Final = b"application/json"
_FEW_HEADERS: Final = 16
_CACHE_CONTROL: Final = (b"cache-control", b"no-cache, private")
_JSON_LINES: Final = header_lines((_CACHE_CONTROL, (b"content-type", JSON)))
"""The header lines that most answers have."""
THRESHOLD: Final = 128 * 1024
_LEVEL: Final = 1


class Response(msgspec.Struct, frozen=True):
    """Status, body and headers of an answer."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: Headers = ()
    tail: bytes = b""
    """The rest of the body, so that large parts need not be copied to join them."""


def json_response(value: object, status: int = 200, headers: Headers = ()) -> Response:
    """Return plain values as a JSON answer."""
    return Response(status, encode(value), JSON, headers)


def text_response(text: str, status: int = 200) -> Response:
    """Return plain text as an answer that browsers must not interpret."""
    return Response(status, text.encode(), b"text/plain; charset=utf-8", ((b"x-content-type-options", b"nosniff"),))


def status_response(error: StatusError, warnings: Headers = ()) -> Response:
    """Return an error as a Status, with the headers that belong to it."""
    headers: list[tuple[bytes, bytes]] = list(warnings)
    if error.code == 403:
        headers.append((b"x-content-type-options", b"nosniff"))
    details = error.status.details
    if details is not None and details.retry_after_seconds:
        headers.append((b"retry-after", str(details.retry_after_seconds).encode()))
    return json_response(error.to_json(), error.code, tuple(headers))


def head_of(response: Response, audit_id: bytes, more: bytes = b"") -> bytes:
    """Return the lines of all headers of an answer, in order, with the lines ``more`` last. ``audit_id`` is made by
    this server and not checked.

    Raises:
        RuntimeError: a header has a control character.
    """
    length = len(response.body) + len(response.tail)
    content_type = response.content_type
    kind = _JSON_LINES if content_type == JSON else header_lines((_CACHE_CONTROL, (b"content-type", content_type)))
    rest = _lines_of(response.headers) + more if response.headers else more
    return b"audit-id: %b\r\n%bcontent-length: %d\r\n%b" % (audit_id, kind, length, rest)


def _lines_of(headers: Headers) -> bytes:
    """Return the lines of headers that may have any text, as warnings and locations. Lines of short ones are
    memorized."""
    # Warnings may hold texts of the request. Longer ones would fill the memo with values that never recur.
    is_kept = len(headers) <= _FEW_HEADERS and is_short(*[value for _, value in headers])
    return (header_lines if is_kept else lines_of)(headers)


async def send_response(send: Send, response: Response, *, audit_id: bytes, head: bool = False) -> None:
    """Send an answer; to a HEAD request without its body."""
    headers = [
        (b"audit-id", audit_id),
        _CACHE_CONTROL,
        (b"content-type", response.content_type),
        (b"content-length", b"%d" % (len(response.body) + len(response.tail))),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    # Two messages, so that a large list is not copied to put its end behind it.
    if response.tail and not head:
        await send({"type": "http.response.body", "body": response.body, "more_body": True})
        await send({"type": "http.response.body", "body": response.tail})
        return
    await send({"type": "http.response.body", "body": b"" if head else response.body})


def worth_compressing(response: Response) -> bool:
    """Return True if the answer is large enough for compression to save time."""
    return response.status == 200 and len(response.body) + len(response.tail) > THRESHOLD


def takes_gzip(accept_encoding: str) -> bool:
    """Return True if the client accepts gzip."""
    return any(part.partition(";")[0].strip() == "gzip" for part in accept_encoding.split(","))


async def compressed(response: Response) -> Response:
    """Return the answer in gzip; it is compressed in a thread, so that the loop is not held up."""
    body = await asyncio.to_thread(_gzip, response.body, response.tail)
    headers = (*response.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return msgspec.structs.replace(response, body=body, tail=b"", headers=headers)


def _gzip(body: bytes, tail: bytes) -> bytes:
    # Level 1, as kube-apiserver's: higher levels cost many times the time for a few percent. Without the time in the
    # header equal answers have equal bytes.
    return gzip.compress(body + tail if tail else body, compresslevel=_LEVEL, mtime=0)
