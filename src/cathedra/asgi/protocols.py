"""HTTP/1.1 on one connection, parsed by httptools.

A request carries the client's certificate, and its `Exchange`, so that whole answers go out in one step. A connection
has one timer, however many requests it serves. That is less than a general server does for each request, and a start
loads none; WebSockets are uvicorn's (`cathedra.asgi.websockets`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import urllib.parse
from collections import deque
from typing import Any, Final

import httptools

from cathedra.asgi.application import Scope
from cathedra.asgi.direct import EXCHANGE
from cathedra.asgi.exchange import STATUS_LINES, Exchange
from cathedra.asgi.flow import WriteFlow
from cathedra.asgi.gathering import GatheringTransport
from cathedra.asgi.peercertificate import PEER_CERTIFICATE, PeerCertificate, peer_certificate
from cathedra.asgi.serving import Application, Serving
from cathedra.asgi.upgrade import SPDY, UPGRADE, Upgrade

__all__ = ["HTTPProtocol"]

HEAD_SECONDS: Final = 30.0
KEEP_ALIVE_SECONDS: Final = 90.0
"""For which a connection without requests stays open."""
PIECE: Final = 16 * 1024
"""Bytes that are parsed at once. A client may send thousands of requests without waiting for an answer; all that have
arrived being parsed at once would keep every other connection waiting."""
HEAD_BYTES: Final = 1024 * 1024
"""Of a request line and its headers; the limit of Kubernetes' own server."""
_MOST_BODY: Final = 65_536
"""Bytes of a body that wait for the application before the client has to wait."""
_VERSIONS: Final = {"version": "3.0", "spec_version": "2.3"}
_MALFORMED: Final = b"Invalid HTTP request received."
_WEBSOCKET: Final = b"websocket"
_LOG = logging.getLogger(__name__)


class HTTPProtocol(asyncio.Protocol):
    """The requests of one connection, in turn.

    A client that does not get done with its head of the request is sent away: after `HEAD_SECONDS`, or at once when it
    is longer than `HEAD_BYTES`.
    """

    transport: Any
    flow: WriteFlow

    def __init__(self, serving: Serving, loop: asyncio.AbstractEventLoop) -> None:
        self.serving = serving
        self._loop = loop
        self._parser: Any = httptools.HttpRequestParser(self)
        # A client that announced its last request may have sent more behind it; that is no reason to refuse the last.
        with contextlib.suppress(AttributeError):  # httptools before 0.6.3 does so anyway
            self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._app = serving.app
        self._certificate: PeerCertificate | None = None
        self._base: dict[str, Any] = {}
        """What the scopes of all requests have in common."""
        # The request whose head is being read
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._awaited = False
        self._in_head = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        # Requests whose head has been read
        self._exchange: Exchange | None = None
        """The last one."""
        self._running: Exchange | None = None
        """The one whose turn it is, or was."""
        self._waiting: deque[tuple[Exchange, Application]] = deque()
        self._handed_over = False
        """Whether what comes now is another protocol's."""
        self._held = bytearray()
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: Any) -> None:
        """Remember who is there."""
        gathering: Any = GatheringTransport(transport, self._loop)
        self.serving.connections.add(self)
        self.transport = gathering
        self.flow = WriteFlow(gathering)
        self._certificate = peer_certificate(transport)
        self._base = {
            "type": "http",
            "asgi": _VERSIONS,
            "server": _address(transport, "sockname"),
            "client": _address(transport, "peername"),
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
            "root_path": "",
        }
        self._head_timer = self._loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the requests that were not answered, and forget about time."""
        self._stop_head_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self.serving.connections.discard(self)
        for exchange in (self._running, *(exchange for exchange, _ in self._waiting)):
            if exchange is not None:
                exchange.lose()
        self._waiting.clear()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self._parser = None

    def eof_received(self) -> None:
        """Close: a client that sends no more waits for no answer."""

    def pause_writing(self) -> None:
        """The client leaves lying what it is sent."""
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """The client has taken most of what was sent."""
        self.flow.resume_writing()

    def shutdown(self) -> None:
        """Close the connection, after the answer to a request that it has."""
        if self._exchange is None or self._exchange.complete:
            self.transport.close()
        else:
            self._exchange.close_after()

    # What arrives

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, a piece at a time: while requests of one piece wait for their turn, the next is held."""
        if self._held:
            self._held += data
        elif len(data) <= PIECE:
            self._parse(data)
        else:
            self._held = bytearray(data)
            self._parse_held()

    def _parse_held(self) -> None:
        held = self._held
        self.flow.resume_reading()  # what is parsed pauses it again, if it has to
        while held and not self._waiting and self._is_open():
            piece = bytes(held[:PIECE])
            del held[:PIECE]
            self._parse(piece)
        if not self._is_open():
            held.clear()
        elif held:
            self.flow.pause_reading()

    def _is_open(self) -> bool:
        """Whether the connection is neither closed nor handed to another protocol."""
        return self in self.serving.connections and not self.transport.is_closing()

    def _parse(self, data: bytes) -> None:
        """Look at the time and the length of heads that do not come at once."""
        self._idle_since = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._handed_over:
                self._speak_websocket()
        except httptools.HttpParserError:
            _LOG.warning("what %s sends is no HTTP", self._base["client"])
            self._refuse_malformed()
            return
        if not self._in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(HEAD_SECONDS, self._too_slow)

    # What the parser calls

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        self._head_bytes = 0
        self._url = b""
        self._headers = []
        self._awaited = False

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the request."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._awaited = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Let the application see the request, with the certificate, and an upgrade that is asked for."""
        self._in_head = False
        if self._head_timer is not None:
            self._stop_head_timer()
        wanted = self._wanted_protocol() if self._parser.should_upgrade() else b""
        if wanted == _WEBSOCKET:
            self._handed_over = True
            return  # the protocol changes when the parser stops
        # Not while an answer is still being sent: the other protocol would begin in the middle of it.
        idle = self._exchange is None or self._exchange.complete
        upgrade = _HTTPUpgrade(self) if wanted == SPDY and idle else None
        exchange = self._exchange = self._read_request(upgrade)
        app = self._app if upgrade is None else upgrade.offered_to(self._app)
        if idle:
            self._start(exchange, app)
        else:
            self.flow.pause_reading()
            self._waiting.append((exchange, app))
        if upgrade is not None:
            # Whatever follows is in another protocol: it waits until that is spoken, and a refusal is the last answer.
            self._app = app
            self.flow.pause_reading()
            exchange.close_after()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        exchange = self._exchange
        if exchange is None or self._handed_over or exchange.complete:
            return
        if exchange.feed(body) > _MOST_BODY:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """The request is all there."""
        exchange = self._exchange
        if exchange is not None and not self._handed_over and not exchange.complete:
            exchange.end_body()

    # Requests

    def _read_request(self, upgrade: Upgrade | None) -> Exchange:
        """The request whose head is complete, and what it is answered on."""
        parser = self._parser
        url = httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        version = parser.get_http_version()
        extensions: dict[str, Any] = {PEER_CERTIFICATE: self._certificate}
        scope: Scope = {
            **self._base,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self._headers,
            "extensions": extensions,
        }
        keep_alive = version != "1.0" and parser.should_keep_alive()
        exchange = Exchange(self, scope, keep_alive=keep_alive, awaited=self._awaited)
        extensions |= {EXCHANGE: exchange} if upgrade is None else {UPGRADE: upgrade}
        return exchange

    def _start(self, exchange: Exchange, app: Application) -> None:
        self._running = exchange
        tasks = self.serving.tasks
        task = self._loop.create_task(exchange.run(app))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def answered(self) -> None:
        """Go on with the next request: the one that was sent behind this, or what is held once its turn has come; other
        connections are served in between."""
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._waiting:
            self._start(*self._waiting.popleft())
        else:
            self._begin_idling()
        if not self._held:
            return
        self.flow.pause_reading()
        if not self._waiting:
            self._loop.call_soon(self._parse_held)

    def _begin_idling(self) -> None:
        """Close the connection if nothing comes for long. Its timer stays, and looks at the time when it is over:
        setting another one for every request would cost as much as reading its head."""
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(KEEP_ALIVE_SECONDS, self._idled)

    def _idled(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return  # a request is under way, whose end sets it again
        left = self._idle_since + KEEP_ALIVE_SECONDS - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._idled)
        elif not self.transport.is_closing():
            self.transport.close()

    # Other protocols

    def _wanted_protocol(self) -> bytes:
        """The protocol that the request asks to go on with, in lower case."""
        connection, upgrade = b"", b""
        for name, value in self._headers:
            if name == b"connection":
                connection = value.lower()
            elif name == b"upgrade":
                upgrade = value.lower()
        return upgrade if b"upgrade" in [token.strip() for token in connection.split(b",")] else b""

    def leave(self) -> None:
        """Send nothing in HTTP any more: the connection has been handed over."""
        if self._running is not None:
            self._running.disconnected = True

    def _speak_websocket(self) -> None:
        """Hand the connection over, with the head of the request as it came."""
        # start-up time: with the first WebSocket
        from cathedra.asgi.websockets import websocket_protocol

        self.serving.connections.discard(self)
        protocol = websocket_protocol(self.serving)
        protocol.connection_made(self.transport)
        lines = [name + b": " + value for name, value in self._headers]
        head = (self._parser.get_method() + b" " + self._url + b" HTTP/1.1", *lines, b"", b"")
        protocol.data_received(b"\r\n".join(head))
        self.transport.set_protocol(protocol)

    # Refusals

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._refuse(b"408 Request Timeout")
        elif self._exchange is None:
            self.transport.close()

    def _refuse(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()

    def _refuse_malformed(self) -> None:
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        date = self.serving.date_line
        self.transport.write(b"".join((STATUS_LINES[400], date, head % len(_MALFORMED), _MALFORMED)))
        self.transport.close()


class _HTTPUpgrade(Upgrade):
    """The upgrade of a request on an HTTP connection."""

    def __init__(self, protocol: HTTPProtocol) -> None:
        super().__init__(protocol.transport.detached(), protocol.serving.connections, protocol)
        self._protocol = protocol

    def _switch(self, headers: Any) -> None:
        self._protocol.leave()
        super()._switch(headers)


def _address(transport: asyncio.BaseTransport, end: str) -> tuple[str, int] | None:
    """Address and port of an end of the connection; None where they are none."""
    info = transport.get_extra_info(end)
    return (str(info[0]), int(info[1])) if isinstance(info, tuple) else None
