"""One request and its answer on an HTTP/1.1 connection.

An application that has its answer whole finds an `Exchange` under ``extensions["cathedra.exchange"]`` and sends it in
one step: by ASGI's messages that would be two calls through the application, a search in each header and two writes.
One that streams writes to it at once, without waiting for its turn, as long as the client keeps up. ASGI's messages
work all the same.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from cathedra.asgi.application import Message, Scope
from cathedra.asgi.direct import header_lines
from cathedra.asgi.flow import WriteFlow
from cathedra.asgi.serving import Application, Serving

__all__ = ["LARGE", "STATUS_LINES", "Connection", "Exchange"]

LARGE: Final = 65_536
"""Bytes from which on joining costs more than another record."""
_SEPARATORS: Final = b'()<>@,;:\\"/[]?={} \t' + bytes(range(32)) + b"\x7f"
"""What no name of a header may have (RFC 9110, section 5.1)."""
_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
_NO_BODY: Final = frozenset({204, 304})
_FAILED: Final = b"Internal Server Error"
_LOG = logging.getLogger(__name__)


class _StatusLines(dict[int, bytes]):
    def __missing__(self, status: int) -> bytes:
        return f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode()


STATUS_LINES: Final = _StatusLines()
"""The first line of an answer, by its status."""
STATUS_LINES.update({status: STATUS_LINES[status] for status in _PHRASES})


class Connection(Protocol):
    """The connection of an exchange."""

    transport: Any
    flow: WriteFlow
    serving: Serving

    def answered(self) -> None:
        """The exchange is over: the next request has its turn."""


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "_awaited",
        "_body",
        "_chunked",
        "_connection",
        "_event",
        "_expected",
        "_flow",
        "_keep_alive",
        "_more",
        "_news",
        "_scope",
        "_started",
        "_transport",
        "complete",
        "disconnected",
    )

    def __init__(self, connection: Connection, scope: Scope, *, keep_alive: bool, awaited: bool) -> None:
        """``awaited``: whether the client sends the body only when it is asked for it (100 Continue)."""
        self._connection = connection
        self._transport = connection.transport
        self._flow = connection.flow
        self._scope = scope
        self._keep_alive = keep_alive
        self._awaited = awaited
        self._body = bytearray()
        self._more = True
        self._news = False
        """Whether something has come that `receive` has not told of."""
        self._event: asyncio.Event | None = None
        self._started = False
        self._chunked = False
        self._expected = 0
        self.complete = False
        """Whether the whole answer has been sent."""
        self.disconnected = False
        """Whether nothing more can be sent."""

    # What the application does in one step

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self.disconnected

    @property
    def ready(self) -> bool:
        """Whether the client is there and takes what it is sent."""
        return not (self.disconnected or self._flow.write_paused)

    def arrived(self) -> bytes | None:
        """The body of the request, if all of it is there: without a turn of the loop or a message."""
        if self._more or self.disconnected or self._awaited:
            return None
        self._flow.resume_reading()
        self._news = False
        body = bytes(self._body)
        self._body.clear()
        return body

    def answer(self, status: int, head: bytes, body: bytes, tail: bytes = b"") -> None:
        """Send a whole answer. ``head`` are the lines of its headers, its length among them; how the connection goes on
        is not theirs to say.

        Raises:
            RuntimeError: an answer has begun already.
        """
        if self._started:
            raise RuntimeError("the answer has begun already")
        dated = self._connection.serving.date_line
        end = b"\r\n" if self._keep_alive else b"connection: close\r\n\r\n"
        self._started = True
        self._awaited = False
        write = self._transport.write
        # Written in the next turn of the loop, not at once: the requests that arrive until then are read together, and
        # so are the answers at the other end. Under load that is a tenth more requests.
        if len(body) + len(tail) < LARGE:
            write(b"".join((STATUS_LINES[status], dated, head, end, body, tail)))
        else:
            write(b"".join((STATUS_LINES[status], dated, head, end, body)))
            if tail:
                write(tail)
        self._finish()

    def write(self, frames: bytes) -> None:
        """Send more of a stream that has begun, as `framed` makes it."""
        if not (self.disconnected or self.complete):
            self._transport.send(frames)

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the client takes again what it is sent, after it had not; None: no more."""
        self._flow.callback = callback

    # What the connection tells

    def feed(self, body: bytes) -> int:
        """More of the body has come; how many bytes wait for the application."""
        self._body += body
        self._news = True
        if self._event is not None:
            self._event.set()
        return len(self._body)

    def end_body(self) -> None:
        """All of the body has come."""
        self._more = False
        self._news = True
        if self._event is not None:
            self._event.set()

    def lose(self) -> None:
        """The connection is lost."""
        if not self.complete:
            self.disconnected = True
        if self._event is not None:
            self._event.set()

    def close_after(self) -> None:
        """Close the connection when the answer has been sent."""
        self._keep_alive = False

    # ASGI

    async def run(self, app: Application) -> None:
        """Let the application answer."""
        try:
            await app(self._scope, self.receive, self.send)
        except asyncio.CancelledError:
            self._transport.close()
            raise
        except Exception:
            _LOG.exception("the application failed at %s", self._scope["path"])
            await self._fail()
        else:
            if not (self.complete or self.disconnected):
                _LOG.error("the application has left the answer to %s unfinished", self._scope["path"])
                await self._fail()
        finally:
            self._scope["extensions"].clear()  # they name this exchange, which would be a reference cycle

    async def _fail(self) -> None:
        """Answer that the server failed; where an answer has begun, break off."""
        if self._started:
            self._transport.close()
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(_FAILED)),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _FAILED})

    async def receive(self) -> Message:
        """What has come of the request, or that its client has left or been answered."""
        if self._awaited and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._awaited = False
        if not (self.disconnected or self.complete):
            self._flow.resume_reading()
            if not self._news:
                if self._event is None:
                    self._event = asyncio.Event()
                await self._event.wait()
                self._event.clear()
            self._news = False
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        return {"type": "http.request", "body": body, "more_body": self._more}

    async def send(self, message: Message) -> None:
        """Send a piece of the answer, when the client takes it.

        Raises:
            RuntimeError: it is no piece that may come now, or has a header that would end its line.
        """
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if self.disconnected:
            return
        if self.complete:
            raise RuntimeError(f"{message['type']} after the end of the answer")
        wanted = "http.response.body" if self._started else "http.response.start"
        if message["type"] != wanted:
            raise RuntimeError(f"{message['type']} instead of {wanted}")
        if self._started:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            self._send_head(message["status"], message.get("headers", ()))

    def _send_head(self, status: int, headers: Any) -> None:
        named = tuple([(name.lower(), value) for name, value in headers])
        if any(not name or name.translate(None, _SEPARATORS) != name for name, _ in named):
            raise RuntimeError("the name of a header is none")
        lines = header_lines(named)
        found = dict(named)
        if b"close" in [token.strip() for token in found.get(b"connection", b"").lower().split(b",")]:
            self._keep_alive, end = False, b"\r\n"
        else:
            end = b"\r\n" if self._keep_alive else b"connection: close\r\n\r\n"
        if b"content-length" in found:
            self._expected = int(found[b"content-length"])
        elif found.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._chunked = True
        elif self._scope["method"] != "HEAD" and status not in _NO_BODY:
            self._chunked = True
            end = end[:-2] + b"transfer-encoding: chunked\r\n\r\n"
        self._started = True
        self._awaited = False
        self._transport.write(b"".join((STATUS_LINES[status], self._connection.serving.date_line, lines, end)))

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._scope["method"] == "HEAD":
            self._expected = 0
        elif self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._transport.write(piece if more else piece + b"0\r\n\r\n")
        else:
            self._expected -= len(body)
            if self._expected < 0:
                raise RuntimeError("the answer is longer than its content-length")
            self._transport.write(body)
        if more:
            return
        if self._expected:
            raise RuntimeError("the answer is shorter than its content-length")
        self._finish()

    def _finish(self) -> None:
        self.complete = True
        if self._event is not None:
            self._event.set()
        if not self._keep_alive:
            self._transport.close()
        self._connection.answered()
