"""HTTP/1.1 on one connection: parsed by httptools, handled by an ASGI application.

httptools (llhttp in its strict mode) refuses what two servers could read differently, which is how requests are
smuggled past a proxy: ``Content-Length`` twice, or beside ``Transfer-Encoding``; a sign, a list or nothing in it;
spaces before a colon; folded headers; lines that end without CR; control characters; chunk sizes that are not
hexadecimal numbers (RFC 9112, sections 2.2, 5.1, 5.2, 6.1 to 6.3, 7.1). This module adds:

- exactly one ``Host`` in HTTP/1.1 (section 3.2), versions 1.0 and 1.1 alone (2.3), no coding but ``chunked`` (6.1) and
  no expectation but ``100-continue`` (RFC 9110, section 10.1.1), refused with the statuses and texts of Go's server;
- a limit for the bytes of a head, of a trailer and of all that is no data between chunks; a time by which a head has to
  be complete and one by which a response has to be read;
- pipelined requests are answered in order, one at a time. A bounded piece is parsed at once, so that a client that
  sends thousands of requests without waiting does not delay the other connections.

The scope carries the client's certificate and, for responses in one call, the request's `RequestCycle`.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.parse
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import httptools

from cathedra.asgi.application import PEER_CERTIFICATE, Pairs, PeerCertificate, RequestHeaders, peer_certificate
from cathedra.asgi.batching import BatchingTransport
from cathedra.asgi.cycle import RequestCycle
from cathedra.asgi.direct import DIRECT_ANSWER
from cathedra.asgi.serverstate import ServerState, addresses
from cathedra.asgi.upgrade import OFFERED, Upgrade

LOG: Final = logging.getLogger(__name__)
HEAD_SECONDS: Final = 30.0
UNREAD_SECONDS: Final = 60.0
"""Seconds after which a connection is closed whose client reads nothing of a response."""
PIECE: Final = 16 * 1024
"""Bytes that are parsed at once."""
HEAD_BYTES: Final = 1024 * 1024
"""Limit of a request line with its headers, and of trailers and chunk extensions. Go's server has the same."""
BODY_BUFFER: Final = 64 * 1024
"""Bytes of a body from which on reading is paused until the application receives them."""
_CHUNK_OVERHEAD: Final = 16
"""Bytes of size and line ends that a chunk may have, as Go's server counts."""
_NO_HEADERS: Final = RequestHeaders(())
_WEBSOCKET: Final = b"websocket"


class _BadRequest(Exception):
    """The request is refused; the arguments are the status line's status and text, and the body."""


class HTTPProtocol(asyncio.Protocol):
    """One connection. The parser calls the ``on_…`` methods while it is fed."""

    def __init__(self, server: ServerState) -> None:
        self.server = server
        self.transport: Any = None
        """A `BatchingTransport` from `connection_made` on."""
        self.write_paused = False
        """True while the client's buffer is full."""
        self.on_writable: Callable[[], None] | None = None
        """Called when it has room again."""
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        # A request that ends the connection may be followed by others. They are parsed and never answered; refusing
        # them would take away the response to the first.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._held = bytearray()
        """Bytes that wait until the requests before them are answered."""
        self._current: RequestCycle | None = None
        """The request that was parsed last."""
        self._pipeline: deque[tuple[RequestCycle, Any]] = deque()
        self._read_paused = False
        self._writable: asyncio.Event | None = None
        self._in_head = self._in_body = False
        self._unaccounted = 0
        """Bytes of the head, or of the body that are no data, up to now."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._last_headers: Pairs = ()
        self._parsed_headers = _NO_HEADERS
        """`_last_headers` as the application sees them. A client sends the same with nearly every read: comparing costs
        a tenth of making them (7 % of a GET)."""
        self._websocket: dict[str, Any] | None = None
        """The scope of a request to change to WebSockets, until its head has been parsed to the end."""
        self._refusal = b""
        """The response to a faulty request that waits for the responses to those before it."""
        self._idle_since: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._certificate: PeerCertificate | None = None
        self._scope: dict[str, Any] = {}
        """The part of the scope that all requests of the connection share."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register with the server and wait for the first head."""
        self.transport = BatchingTransport(transport, self._loop, self.server.batch)  # type: ignore[arg-type]  # TCP or TLS
        self.server.connections.add(self)
        self._certificate = peer_certificate(transport)
        local, remote = addresses(transport)
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": local,
            "client": remote,
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
            "root_path": "",
        }
        self._head_timer = self._loop.call_later(HEAD_SECONDS, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application of the current request and release everything."""
        self.server.connections.discard(self)
        for cycle in (self._current, *(cycle for cycle, _ in self._pipeline)):
            if cycle is not None:
                cycle.disconnect()
        self._allow_writing()
        self.release()
        self.transport.drop()

    def eof_received(self) -> bool:
        """Close the connection after buffered data is sent."""
        return False

    def pause_writing(self) -> None:
        """Stop sending large responses, and close the connection if the client reads nothing for a long time."""
        self.transport.pause()
        self.write_paused = True
        if self.transport.has_rest and self._unread_timer is None:
            self._unread_timer = self._loop.call_later(UNREAD_SECONDS, self._response_is_unread)

    def resume_writing(self) -> None:
        """Send the rest of large responses first; then resume the application."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        self.transport.resume()
        if not self.transport.has_rest:
            self._allow_writing()

    def data_received(self, data: bytes) -> None:
        """Parse a piece at a time. While requests of one piece wait for their response, the next is held."""
        if self._refusal:
            return
        if self._held:
            self._held += data
            return
        if len(data) <= PIECE:
            self._parse(data)
        else:
            self._held += data
        if self._held:
            self._parse_held()

    def shutdown(self) -> None:
        """Close the connection behind the response that is being sent."""
        if self._current is None or self._current.complete:
            self.transport.close()
        else:
            self._current.keep_alive = False

    # For `RequestCycle`

    async def writable(self) -> None:
        """Wait until the client's buffer has room, or the connection is lost."""
        if self._writable is None:
            self._writable = asyncio.Event()
        await self._writable.wait()

    def resume_reading(self) -> None:
        """Resume reading after a body had filled its buffer."""
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def response_complete(self) -> None:
        """Begin the next pipelined request, or parse the bytes that are held. Other connections are served in
        between."""
        if self.transport.is_closing():
            return
        if self._pipeline:
            self._start(*self._pipeline.popleft())
        elif self._refusal:
            self._send_refusal()
            return
        else:
            self._begin_idling()
        if not self._refusal:
            self.resume_reading()
        if not self._held:
            return
        self._pause_reading()
        if not self._pipeline:
            self._loop.call_soon(self._parse_held)

    def release(self) -> None:
        """Drop all references of a connection that has ended or speaks another protocol.

        Parser, cycles and upgrades refer to each other. Left alone they and the heads of their requests, a megabyte
        each, stay until Python's collector looks for cycles; it counts objects, of which there are few.
        """
        for timer in (self._head_timer, self._idle_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._idle_timer = self._unread_timer = None
        self._parser = self._current = self.on_writable = None
        self._pipeline.clear()
        self._held.clear()
        self._url, self._headers = b"", []
        self._last_headers, self._parsed_headers = (), _NO_HEADERS
        self._websocket = None

    # Parsing

    def _parse(self, data: bytes) -> None:
        self._idle_since = None
        self._unaccounted += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade_requested(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            self._refuse(*_refusal(error))
            return
        if not (self._in_head or self._in_body):
            self._unaccounted = 0
        elif self._unaccounted > HEAD_BYTES:
            self._refuse("431 Request Header Fields Too Large" if self._in_head else "400 Bad Request", "")
        elif self._in_head and self._head_timer is None:
            self._head_timer = self._loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _parse_held(self) -> None:
        held = self._held
        self.resume_reading()  # parsing pauses it again if necessary
        while held and not self._pipeline and self._is_open():
            piece = bytes(held[:PIECE])
            del held[:PIECE]
            self._parse(piece)
        if not self._is_open():
            held.clear()
        elif held:
            self._pause_reading()

    def _is_open(self) -> bool:
        """Return True if the connection is neither closed nor handed to another protocol."""
        return self._parser is not None and not self.transport.is_closing()

    def on_message_begin(self) -> None:
        """Begin a new request."""
        self._in_head = True
        self._url = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a field of the trailer, which the application does not see."""
        if self._in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that the head is complete: call the application, or queue the request behind those before it."""
        self._in_head, self._in_body = False, True
        self._unaccounted = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        headers = self._request_headers()
        version = self._parser.get_http_version()
        expects_continue = _check(headers, version)
        scope = self._request_scope(headers, version)
        idle = self._current is None or self._current.complete
        # An upgrade is offered only while no response is being sent: the other protocol would begin within it.
        requested = _requested_upgrade(headers) if idle and self._parser.should_upgrade() else b""
        if requested == _WEBSOCKET:
            self._websocket = scope
            return  # the protocol changes when the parser stops, behind this head
        extension = OFFERED.get(requested)
        keep_alive = version != "1.0" and extension is None and self._parser.should_keep_alive()
        cycle = RequestCycle(self, scope, keep_alive=keep_alive, expects_continue=expects_continue)
        app: Any = self.server.app
        extensions: dict[str, Any] = {PEER_CERTIFICATE: self._certificate}
        scope["extensions"] = extensions
        if extension is not None:
            upgrade = _HTTPUpgrade(self, cycle)
            extensions[extension] = upgrade
            app = upgrade.offered_to(app)
        elif version != "1.0":  # which does not know the chunks of a stream that is written directly
            extensions[DIRECT_ANSWER] = cycle
        self._current = cycle
        if idle:
            self._start(cycle, app)
        else:
            self._pause_reading()
            self._pipeline.append((cycle, app))
        if extension is not None:
            # The bytes that follow are in the other protocol. They stay unread until it takes over.
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body; pause reading while many bytes wait."""
        self._unaccounted = max(0, self._unaccounted - 2 * len(body) - _CHUNK_OVERHEAD)
        cycle = self._current
        if self._websocket is not None or cycle is None or cycle.complete:
            return
        cycle.add(body)
        if len(cycle.body) > BODY_BUFFER:
            self._pause_reading()

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        self._in_body = False
        self._unaccounted = 0
        if self._current is not None and self._websocket is None:
            self._current.end_body()

    def _request_headers(self) -> RequestHeaders:
        received = tuple(self._headers)
        if received != self._last_headers:
            self._last_headers = received
            self._parsed_headers = RequestHeaders([(name.lower(), value) for name, value in received])
        return self._parsed_headers

    def _request_scope(self, headers: RequestHeaders, version: str) -> dict[str, Any]:
        url = self._url
        # Fast path: the parser has checked the characters, and a target that begins with a slash has no other parts
        # (RFC 9112, section 3.2.1).
        if url[:1] == b"/" and b"#" not in url:
            raw_path, _, query = url.partition(b"?")
        else:
            parts = httptools.parse_url(url)
            raw_path, query = parts.path, parts.query or b""
        path = raw_path.decode("ascii")
        scope = self._scope.copy()
        scope["http_version"] = version
        scope["method"] = self._parser.get_method().decode("ascii")
        scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        scope["headers"] = headers
        return scope

    def _start(self, cycle: RequestCycle, app: Any) -> None:
        task = self._loop.create_task(cycle.run(app))
        # The cycle leaves the set itself: a done callback would cost a turn of the loop for each request.
        self.server.tasks.add(task)
        cycle.task = task

    # Upgrades and refusals

    def _upgrade_requested(self, rest: bytes) -> None:
        """Hand the connection over, or go on with the requests behind one whose upgrade is ignored."""
        if self._websocket is not None:
            self._speak_websocket(self._websocket, rest)
        elif self._is_open():
            self._held[:0] = rest

    def _speak_websocket(self, scope: dict[str, Any], rest: bytes) -> None:
        # start-up time: the first WebSocket loads the library
        from cathedra.asgi.websockets import WebSocketProtocol

        lines = [scope["method"].encode() + b" " + self._url + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in scope["headers"]]
        self.server.connections.discard(self)
        protocol = WebSocketProtocol(self.server, scope)
        transport = self.transport.detached()
        self.release()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(b"\r\n".join((*lines, b"", rest)))

    def _refuse(self, status: str, detail: str) -> None:
        """Send an error in the form of Go's server and close the connection."""
        text = f"{status}: {detail}" if detail else status
        head = (
            f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            f"content-length: {len(text)}\r\n\r\n{text}"
        )
        self._held.clear()
        self._refusal = head.encode()
        cycle = self._current
        if cycle is not None and not cycle.body_complete and not cycle.complete:
            # The fault is in the body of this request.
            cycle.disconnect()
            if self._pipeline:
                self._pipeline.pop()
                self._pause_reading()
            elif cycle.responding:
                self.transport.close()
            else:
                self._send_refusal()
        elif cycle is None or cycle.complete:
            self._send_refusal()
        else:
            # Sent at once, the client would take it for the response to the request before.
            self._pause_reading()

    def _send_refusal(self) -> None:
        self.transport.write(self._refusal)
        self.transport.close()

    # Timers and flow control

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._refuse("408 Request Timeout", "")
        elif self._current is None:
            self.transport.close()

    def _response_is_unread(self) -> None:
        self._unread_timer = None
        self.transport.abort()

    def _begin_idling(self) -> None:
        """Close the connection when no request arrives for a long time.

        One timer compares the time when it ends. Setting a new one for every request costs as much as parsing its head.
        """
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(self.server.keep_alive_seconds, self._idled)

    def _idled(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return  # a request is being handled; its end sets the timer again
        left = self._idle_since + self.server.keep_alive_seconds - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._idled)
        else:
            self.transport.close()

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def _allow_writing(self) -> None:
        was_paused, self.write_paused = self.write_paused, False
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if was_paused and self.on_writable is not None:
            self.on_writable()


class _HTTPUpgrade(Upgrade):
    """The offer to speak another protocol on an HTTP connection."""

    def __init__(self, protocol: HTTPProtocol, cycle: RequestCycle) -> None:
        super().__init__(protocol.transport.detached(), protocol.server.connections, protocol)
        self._protocol = protocol
        self._cycle = cycle

    def _switch(self, headers: Any) -> None:
        self._cycle.disconnect()  # no HTTP is sent after this
        self._protocol.release()
        super()._switch(headers)


def _check(headers: RequestHeaders, version: str) -> bool:
    """Return True if the client waits for ``100 Continue``.

    Raises:
        _BadRequest: the request breaks a rule that httptools does not check.
    """
    texts = headers.texts
    if version != "1.1":
        if version != "1.0":
            raise _BadRequest("505 HTTP Version Not Supported", "unsupported protocol version")
    elif headers.names.count(b"\nhost\n") != 1:
        raise _BadRequest(
            "400 Bad Request",
            "too many Host headers" if b"host" in texts else "missing required Host header",
        )
    coding = texts.get(b"transfer-encoding")
    if coding is not None and coding.lower() != "chunked":
        raise _BadRequest("501 Not Implemented", "Unsupported transfer encoding")
    expectation = texts.get(b"expect")
    if expectation is None:
        return False
    if expectation.lower() != "100-continue":
        raise _BadRequest("417 Expectation Failed", "")
    return version == "1.1"


def _refusal(error: httptools.HttpParserError) -> tuple[str, str]:
    """Return the status and the detail of the response to a request that could not be parsed."""
    cause = error.__context__
    if isinstance(cause, _BadRequest):
        return cause.args[0], cause.args[1]
    if cause is not None and not isinstance(cause, httptools.HttpParserError | UnicodeDecodeError):
        LOG.error("a request could not be handled", exc_info=cause)
    return "400 Bad Request", ""


def _requested_upgrade(headers: RequestHeaders) -> bytes:
    """Return the protocol of the ``Upgrade`` header in lower case; empty if ``Connection`` does not name it."""
    if "upgrade" not in [token.strip() for token in headers.texts.get(b"connection", "").lower().split(",")]:
        return b""
    return headers.texts.get(b"upgrade", "").lower().encode("latin-1")
