"""uvicorn's HTTP protocol, with the client's certificate and the exchange handed to the application.

uvicorn keeps the certificate to itself; this subclass puts it into the scope, as the one for WebSockets does
(`cathedra.asgi.websockets`). A request also carries its `Exchange`, so that whole answers go out in one step, and a
connection has one timer, however many requests it serves.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cathedra.asgi.direct import EXCHANGE
from cathedra.asgi.exchange import Exchange, WriteFlow
from cathedra.asgi.gathering import GatheringTransport, Turn
from cathedra.asgi.headers import Pairs, RequestHeaders
from cathedra.asgi.knownheads import Known, KnownHeads
from cathedra.asgi.peercertificate import PEER_CERTIFICATE, PeerCertificate, peer_certificate
from cathedra.asgi.upgrade import OFFERED, Upgrade

__all__ = ["CertificateHTTPProtocol"]

HEAD_SECONDS: Final = 30.0
UNREAD_SECONDS: Final = 60.0
"""For which a client may take nothing of an answer; then its connection is closed."""
PIECE: Final = 16 * 1024
"""Bytes that are parsed at once. A client may send thousands of requests without waiting for an answer; all that have
arrived being parsed at once would keep every other connection waiting."""
HEAD_BYTES: Final = 1024 * 1024
"""Of a request line and its headers; the limit of Kubernetes' own server."""


_NO_HEADERS: Final = RequestHeaders(())
_NO_HOST: Final = "missing required Host header"


class _NotOneHost(Exception):
    """A request of HTTP/1.1 names no host, or more than one (RFC 9112, section 3.2)."""


class CertificateHTTPProtocol(HttpToolsProtocol):
    """HTTP requests carry the certificate of their connection; answers go out in one piece.

    A client that does not get done with its head of the request is sent away: after `HEAD_SECONDS`, or at once when it
    is longer than `HEAD_BYTES`.
    """

    _certificate: PeerCertificate | None = None
    _held: bytearray
    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _idle_since: float | None = None
    _unread_timer: asyncio.TimerHandle | None = None
    _received: Pairs = ()
    """The headers of the last request as its client wrote them."""
    _alike = _NO_HEADERS
    """What they are, and those of the next request if it has the same."""
    _expects_100 = False
    _host_fault = _NO_HOST
    """The problem of the last request's ``Host``; None if there is none."""
    _refused_for = ""
    """The same, of a request that is refused for it."""
    _asked_for: bytes | None = None
    """The URL of the last request."""
    _target = "", b"", b""
    """What it names, and what the next one names if it is the same."""
    _scope_of_all: dict[str, Any]
    """What is known of every request of the connection."""
    _to_websocket = False
    """Whether the request changes the protocol to that of WebSockets."""

    def __init__(self, *arguments: Any, heads: KnownHeads, turn: Turn, **options: Any) -> None:
        """``heads``: those that all connections of the server have had. ``turn``: in which their answers go out."""
        super().__init__(*arguments, **options)
        self._heads = heads
        self._turn = turn

    def connection_made(self, transport: Any) -> None:
        """Remember the certificate."""
        gathering: Any = GatheringTransport(transport, self.loop, self._turn)
        super().connection_made(gathering)
        self.flow = WriteFlow(gathering)
        self._certificate = peer_certificate(transport)
        self._scope_of_all = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": self.root_path,
        }
        self._held = bytearray()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and release what was received."""
        super().connection_lost(exc)
        self.release()
        gathering: Any = self.transport
        gathering.drop()

    def pause_writing(self) -> None:
        """The client is behind: large answers wait for it, but not without end."""
        gathering: Any = self.transport
        gathering.pause()
        super().pause_writing()
        if gathering.has_rest and self._unread_timer is None:
            self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self._unread)

    def resume_writing(self) -> None:
        """The client takes more: first of what waits for it."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        gathering: Any = self.transport
        gathering.resume()
        if not gathering.has_rest:
            super().resume_writing()

    def _unread(self) -> None:
        self._unread_timer = None
        self.transport.abort()

    def release(self) -> None:
        """Drop all references of a connection that has ended, or speaks another protocol now.

        Parser, exchanges and upgrades refer to each other. Left alone, they and the heads of their requests, a megabyte
        each, stay until Python's collector looks for cycles; that counts objects, of which there are few.
        """
        self._stop_timer()
        for timer in (self.timeout_keep_alive_task, self._unread_timer):
            if timer is not None:
                timer.cancel()
        self.timeout_keep_alive_task = self._unread_timer = None
        self.parser = None  # type: ignore[assignment]  # as uvicorn does
        self.app = self.config.loaded_app
        self.pipeline.clear()
        self.cycle = None  # type: ignore[assignment]  # as before the first request
        self._held.clear()
        self.url, self.headers = b"", []
        self.scope = None  # type: ignore[assignment]  # as above
        self._received, self._alike, self._asked_for, self._target = (), _NO_HEADERS, None, ("", b"", b"")

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to the protocol of WebSockets."""
        super().handle_websocket_upgrade()
        self.release()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, in Go's words if its host is what is wrong."""
        super().send_400_response(f"400 Bad Request: {self._refused_for}" if self._refused_for else msg)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, a piece at a time: while requests of one piece wait for their turn, the next is held."""
        if self._held:
            self._held += data
        elif len(data) <= PIECE:
            self._take(data)
        else:
            self._held = bytearray(data)
            self._parse_held()

    def on_response_complete(self) -> None:
        """Go on with the next request: the one that was sent behind this, or what is held once its turn has come; other
        connections are served in between."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            exchange, app = self.pipeline.pop()
            self._start_asgi_task(exchange, app)
        else:
            self._begin_idling()
        if not self._held:
            return
        self.flow.pause_reading()
        if not self.pipeline:
            self.loop.call_soon(self._parse_held)

    def _begin_idling(self) -> None:
        """Close the connection if nothing comes for long. Its timer stays, and looks at the time when it is over:
        setting another one for every request would cost as much as reading its head."""
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self._idled)

    def _idled(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            return  # a request is under way, whose end sets it again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self._idled)
        else:
            self.timeout_keep_alive_handler()

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _parse_held(self) -> None:
        held = self._held
        self.flow.resume_reading()  # what is parsed pauses it again, if it has to
        while held and not self.pipeline and self._is_open():
            piece = bytes(held[:PIECE])
            del held[:PIECE]
            self._parse(piece)
        if not self._is_open():
            held.clear()
        elif held:
            self.flow.pause_reading()

    def _is_open(self) -> bool:
        """Whether the connection is neither closed nor handed to another protocol."""
        return self in self.connections and not self.transport.is_closing()

    def _take(self, data: bytes) -> None:
        """Take what arrived at once: nearly always one request, whose head is known."""
        before = self.cycle
        if before is None or self._in_head or before.more_body or not before.response_complete:
            self._parse(data)
            return
        known = self._heads.find(data)
        if known is not None:
            self._begin(known)
            return
        self._parse(data)
        exchange = self.cycle
        if exchange is None or exchange is before:
            return
        if exchange.keep_alive and not exchange.more_body:
            self._heads.learn(data, self.scope, len(exchange.body))

    def _begin(self, known: Known) -> None:
        """Begin with a request that needs no parsing."""
        line = known.line
        self._idle_since = None
        self.expect_100_continue = False
        scope = self._described(line.method, known.headers)
        scope["path"], scope["raw_path"], scope["query_string"] = line.path, line.raw_path, line.query
        self.scope = scope
        exchange = self._exchange(None, keep_alive=True)
        exchange.body = known.body
        exchange.more_body = False
        self.cycle = exchange
        self._start_asgi_task(exchange, self.app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Answer in a task of its own, which leaves the set of tasks by itself: without a callback of the loop."""
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        cycle.task = task

    def _parse(self, data: bytes) -> None:
        """Look at the time and the length of heads that do not come at once."""
        super().data_received(data)
        if not self._in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        self._head_bytes = 0
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep it as it is; nearly always all of them are those of the last request."""
        self.headers.append((name, value))

    def _look_at_headers(self) -> None:
        received = tuple(self.headers)
        if received != self._received:
            alike = self._alike.of_other_length(self._received, received)
            if alike is None:
                alike = RequestHeaders((name.lower(), value) for name, value in received)
                self._expects_100 = any(name == b"expect" and value.lower() == b"100-continue" for name, value in alike)
            self._received, self._alike, self._host_fault = received, alike, _host_fault(alike)
        self.expect_100_continue = self._expects_100
        self.headers = list(self._alike)  # trailers, which are none of the application's business, may follow

    def on_headers_complete(self) -> None:
        """Let the application see the request, with the certificate, and an upgrade that is asked for."""
        self._in_head = False
        if self._head_timer is not None:
            self._stop_timer()
        self._look_at_headers()
        parser, app = self.parser, self.app
        self.scope = self._scope()
        if self._host_fault and self.scope["http_version"] != "1.0":
            self._refused_for = self._host_fault
            raise _NotOneHost
        wanted = self._get_upgrade() if parser.should_upgrade() else None
        self._to_websocket = wanted == b"websocket" and self._should_upgrade_to_ws()
        if self._to_websocket:
            return  # uvicorn changes the protocol when the parser stops
        # Not while an answer is still being sent: the other protocol would begin in the middle of it.
        idle = self.cycle is None or self.cycle.response_complete
        extension = OFFERED.get(wanted) if wanted is not None and idle else None
        upgrade = _HTTPUpgrade(self, extension) if extension is not None else None
        if upgrade is not None:
            app = upgrade.offered_to(app)
        keep_alive = self.scope["http_version"] != "1.0" and parser.should_keep_alive()
        exchange = self._exchange(upgrade, keep_alive=keep_alive)
        self.cycle = exchange
        if idle:
            self._start_asgi_task(exchange, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, app))
        if upgrade is not None:
            # Whatever follows is in another protocol: it waits until that is spoken, and a refusal is the last answer.
            self.app = app
            self.flow.pause_reading()
            exchange.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body, and read no more while much of it lies there."""
        exchange: Any = self.cycle
        if self._to_websocket or exchange.response_complete:
            return
        exchange.add(body)
        if len(exchange.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        if exchange.awaited:
            exchange.message_event.set()

    def on_message_complete(self) -> None:
        """The body is there."""
        exchange: Any = self.cycle
        if self._to_websocket or exchange.response_complete:
            return
        exchange.more_body = False
        if exchange.awaited:
            exchange.message_event.set()

    def _scope(self) -> Any:
        """What is known of the request whose head is complete."""
        if self.url != self._asked_for:
            self._target = _target(self.url)
            self._asked_for = self.url
        scope = self._described(self.parser.get_method().decode("ascii"), self._alike)
        scope["http_version"] = self.parser.get_http_version()
        scope["path"], scope["raw_path"], scope["query_string"] = self._target
        return scope

    def _described(self, method: str, headers: RequestHeaders) -> Any:
        """What is known of a request but for what it asks for."""
        scope: Any = self._scope_of_all.copy()
        scope["state"] = self.app_state.copy()
        scope["method"] = method
        scope["headers"] = headers
        return scope

    def _exchange(self, upgrade: _HTTPUpgrade | None, *, keep_alive: bool) -> Exchange:
        """What the request is answered on."""
        scope: Any = self.scope
        extensions: dict[str, Any] = {PEER_CERTIFICATE: self._certificate}
        scope["extensions"] = extensions
        exchange = Exchange(self, scope, keep_alive=keep_alive)
        if upgrade is None:
            extensions[EXCHANGE] = exchange
        else:
            extensions[upgrade.extension] = upgrade
        return exchange

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing of an upgrade that the application decides on."""
        if self.scope["extensions"].keys().isdisjoint(OFFERED.values()):
            super()._unsupported_upgrade_warning()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._refuse(b"408 Request Timeout")
        elif self.cycle is None:
            self.transport.close()

    def _refuse(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()


def _host_fault(headers: RequestHeaders) -> str:
    """Return what is wrong with the ``Host`` of a request of HTTP/1.1, in the words of Go's server."""
    hosts = headers.names.count(b"\nhost\n")
    if hosts == 1:
        return ""
    return "too many Host headers" if hosts else _NO_HOST


def _target(url: bytes) -> tuple[str, bytes, bytes]:
    """The path of a URL, as it was written as well, and its query."""
    parts = httptools.parse_url(url)
    path = parts.path.decode("ascii")
    return urllib.parse.unquote(path) if "%" in path else path, parts.path, parts.query or b""


class _HTTPUpgrade(Upgrade):
    """The upgrade of a request that uvicorn has parsed."""

    def __init__(self, protocol: CertificateHTTPProtocol, extension: str) -> None:
        """``extension`` is the name under which the application finds it."""
        self.extension = extension
        gathering: Any = protocol.transport
        super().__init__(gathering.detached(), protocol.connections, protocol)
        self._protocol = protocol

    def _switch(self, headers: Any) -> None:
        if self._protocol.cycle is not None:
            self._protocol.cycle.disconnected = True  # nothing is sent in HTTP any more
        self._protocol.release()
        super()._switch(headers)
