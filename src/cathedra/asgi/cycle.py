"""One request and its response on an HTTP/1.1 connection.

An application answers in one of two ways. ASGI's messages (`RequestCycle.send`) work for every application. An
application that has its whole response at once finds the cycle as a `DirectAnswer` in the scope's extensions and sends
the response in one call, which saves two coroutine calls and a check of each header. Streams use both: the head as a
message, then frames through `RequestCycle.write`.
"""

from __future__ import annotations

import asyncio
import http
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cathedra.asgi.application import Message
from cathedra.asgi.batching import LARGE
from cathedra.asgi.direct import framed, header_lines

if TYPE_CHECKING:
    from cathedra.asgi.http1 import HTTPProtocol

LOG: Final = logging.getLogger(__name__)
_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
STATUS_LINES: Final = {code: f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\n".encode() for code in range(100, 600)}
_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""A header's name (RFC 9110, section 5.6.2)."""
_NO_BODY: Final = frozenset({204, 304})
_SERVER_ERROR: Final = b"Internal Server Error"


class RequestCycle:
    """One request and its response; a `cathedra.asgi.direct.DirectAnswer`."""

    __slots__ = (
        "_body_taken",
        "_chunked",
        "_connection",
        "_disconnected",
        "_expects_continue",
        "_received",
        "_remaining",
        "body",
        "body_complete",
        "complete",
        "keep_alive",
        "responding",
        "scope",
        "task",
    )

    def __init__(self, connection: HTTPProtocol, scope: Any, *, keep_alive: bool, expects_continue: bool) -> None:
        """``keep_alive``: another request may follow on the ``connection``. ``expects_continue``: the client waits for
        ``100 Continue`` before it sends the body."""
        self.scope = scope
        self.keep_alive = keep_alive
        self.body: bytes | bytearray = b""
        """The part of the request's body that has arrived and that the application has not received."""
        self.body_complete = False
        self.complete = False
        """The last byte of the response was written."""
        self.task: asyncio.Task[None] | None = None
        """The application, once it has been called."""
        self._connection = connection
        self._expects_continue = expects_continue
        self._received: asyncio.Event | None = None
        """Made by the first call of `receive`. Most bodies are complete before the application receives them."""
        self._body_taken = False
        """`arrived` has returned the whole body."""
        self.responding = False
        """The first byte of the response was written."""
        self._chunked = False
        self._disconnected = False
        self._remaining = 0
        """Bytes of the response's body that are missing, by its ``content-length``."""

    # The connection calls these.

    def add(self, piece: bytes) -> None:
        """Append a piece of the request's body. Most bodies have one piece, which is not copied."""
        if not self.body:
            self.body = piece
        elif type(self.body) is bytearray:
            self.body += piece
        else:
            self.body = bytearray(self.body) + piece
        self._notify()

    def end_body(self) -> None:
        """Mark the request's body as complete."""
        self.body_complete = True
        self._notify()

    def disconnect(self) -> None:
        """Notify the application that no more can be sent or received."""
        self._disconnected = True
        self._notify()

    async def run(self, app: Any) -> None:
        """Call the application and make sure that its response ends.

        An application that raises or returns before its response has begun gets a response of status 500. If the
        response has begun, the connection is closed, so that the client notices that the rest is missing.
        """
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            self.break_off()  # the server ends
        except BaseException:
            LOG.exception("Exception in the application")
            self._fail()
        else:
            if not (self.complete or self._disconnected):
                LOG.error("the application returned without completing its response")
                self._fail()
        finally:
            self._connection.server.tasks.discard(self.task)
            # The extensions refer to this cycle: without this line its body, up to megabytes, would wait for the
            # garbage collector.
            self.scope["extensions"].clear()

    def _fail(self) -> None:
        if self._disconnected or self.complete:
            return
        if self.responding:
            self._connection.transport.close()
            return
        self.keep_alive = False
        self.answer(500, b"content-type: text/plain; charset=utf-8\r\ncontent-length: 21\r\n", _SERVER_ERROR)

    def _notify(self) -> None:
        if self._received is not None:
            self._received.set()

    # `DirectAnswer`

    @property
    def gone(self) -> bool:
        """Return True if the client has disconnected."""
        return self._disconnected

    @property
    def ready(self) -> bool:
        """Return True if the client is connected and its buffer has room."""
        return not (self._disconnected or self._connection.write_paused)

    def arrived(self) -> bytes | None:
        """Return the request's body if it is complete, else None. May be called once, before `receive`."""
        if not self.body_complete or self._disconnected or self._expects_continue:
            return None
        self._connection.resume_reading()
        self._body_taken = True
        body = bytes(self.body)
        self.body = b""
        return body

    def answer(self, status: int, head: bytes, body: bytes, tail: bytes = b"") -> None:
        """Send a whole response. ``head``: its header lines, ``content-length`` included, ``connection`` excluded.

        Raises:
            RuntimeError: a response has already begun.
        """
        if self.responding:
            raise RuntimeError("the response has already begun")
        self.responding = True
        self._expects_continue = False
        connection = self._connection
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        # `transport.write` sends in the next turn of the loop. Requests that arrive until then are parsed together and
        # their responses are sent together: under load a tenth more requests per second.
        if tail and len(body) + len(tail) >= LARGE:
            connection.transport.write(b"".join((STATUS_LINES[status], connection.server.date, head, end, body)))
            connection.transport.write(tail)
        else:
            connection.transport.write(b"".join((STATUS_LINES[status], connection.server.date, head, end, body, tail)))
        self._complete()

    def write(self, frames: bytes | memoryview) -> None:
        """Send frames of a chunked response that has begun (`cathedra.asgi.direct.framed`) without delay."""
        if not (self._disconnected or self.complete):
            self._connection.transport.send(frames)

    def abort(self) -> None:
        """Close the connection at once. Bytes that are still buffered are dropped."""
        self._connection.transport.abort()

    def break_off(self) -> None:
        """Close the connection within a response, so that the client notices that the rest is missing."""
        self._disconnected = True
        self._connection.transport.close()

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the client's buffer has room again; None: stop.

        Meanwhile the buffer of the connection is small: frames that wait are shared by all watchers of a selection and
        cost nothing, bytes in the buffer are a copy for each client.
        """
        self._connection.on_writable = callback
        self._connection.transport.set_write_buffer_limits(high=None if callback is None else LARGE)

    # ASGI

    async def receive(self) -> Message:
        """Return the next message: a piece of the body, or ``http.disconnect`` behind it."""
        connection = self._connection
        if self._expects_continue and not connection.transport.is_closing():
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_continue = False
        if self._received is None:
            self._received = asyncio.Event()
            if self.body or (self.body_complete and not self._body_taken):
                self._received.set()
        if not (self._disconnected or self.complete):
            connection.resume_reading()
            await self._received.wait()
            self._received.clear()
        if self._disconnected or self.complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": not self.body_complete}

    async def send(self, message: Message) -> None:
        """Send a message of the response. Waits while the client's buffer is full; ignored if it has disconnected.

        Raises:
            RuntimeError: the message is out of order, or a header or the body's length is invalid.
        """
        if self._connection.write_paused and not self._disconnected:
            await self._connection.writable()
        if self._disconnected:
            return
        kind = message["type"]
        if not self.responding:
            if kind != "http.response.start":
                raise RuntimeError(f"expected http.response.start, not {kind}")
            self._begin(message["status"], tuple(message.get("headers", ())))
        elif self.complete:
            raise RuntimeError(f"unexpected message {kind}: the response is complete")
        elif kind != "http.response.body":
            raise RuntimeError(f"expected http.response.body, not {kind}")
        else:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))

    def _begin(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        length: int | None = None
        closes = False
        for name, value in headers:
            if _TOKEN.fullmatch(name) is None:
                raise RuntimeError(f"invalid header name {name!r}")
            lower = name.lower()
            if lower == b"content-length":
                length = int(value)
            elif lower == b"transfer-encoding" and value.lower() == b"chunked":
                self._chunked = True
            elif lower == b"connection" and b"close" in [token.strip() for token in value.lower().split(b",")]:
                closes = True
                self.keep_alive = False
        lines = [STATUS_LINES[status], self._connection.server.date, header_lines(headers)]
        if not self._chunked:
            if length is not None:
                self._remaining = length
            elif self.scope["method"] != "HEAD" and status not in _NO_BODY:
                # Without a length the end of the body is marked by a last chunk (RFC 9112, section 6.1); a client of
                # HTTP/1.0 does not know chunks and reads until the connection is closed.
                self._chunked = self.scope["http_version"] != "1.0"
                self._remaining = -1
                if self._chunked:
                    lines.append(b"transfer-encoding: chunked\r\n")
        if not (self.keep_alive or closes):
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self.responding = True
        self._expects_continue = False
        self._connection.transport.write(b"".join(lines))

    def _send_body(self, body: bytes, *, more: bool) -> None:
        transport = self._connection.transport
        if self.scope["method"] == "HEAD":
            self._remaining = 0
        elif self._chunked:
            self._remaining = 0
            if body:
                transport.write(framed(body))
            if not more:
                transport.write(b"0\r\n\r\n")
        else:
            if self._remaining >= 0:
                if len(body) > self._remaining:
                    raise RuntimeError("the body is longer than its content-length")
                self._remaining -= len(body)
            if body:
                transport.write(body)
        if more:
            return
        if self._remaining > 0:
            raise RuntimeError("the body is shorter than its content-length")
        self._complete()

    def _complete(self) -> None:
        self.complete = True
        self._notify()
        if not self.keep_alive:
            self._connection.transport.close()
        self._connection.response_complete()
