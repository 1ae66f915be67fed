"""WebSocket connections of an ASGI application, on the sans-I/O protocol of the library ``websockets``.

Compression (``permessage-deflate``) is not offered: 31 kB of it unpack to 31 MiB, and the frames that were packed
together would be parsed in one turn of the event loop.

Apart from HTTP, because the library takes 20 ms to import: the first WebSocket loads it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from http import HTTPStatus
from typing import Any, Final

from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from cathedra.asgi.application import PEER_CERTIFICATE, Message, peer_certificate
from cathedra.asgi.cycle import STATUS_LINES
from cathedra.asgi.serverstate import ServerState

LOG: Final = logging.getLogger(__name__)
MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Limit of a message from the client."""
PING_SECONDS: Final = 20.0
"""Time between pings, and time in which each is to be answered."""
_CLOSE_SECONDS: Final = 10.0
"""Time in which the client is to answer a close frame."""
_UNSENT: Final = 64 * 1024
"""Bytes that may wait for a client before the application waits. TLS would let half a megabyte wait."""
_TURN: Final = 4 * 1024
"""Bytes that are parsed in one turn of the loop. The smallest frames have two bytes (six from clients), and each ping
among them is answered: 64 KiB of pings would hold the loop for some 100 ms."""
_GOING_AWAY: Final = 1012
_NO_STATUS: Final = 1005
_ABNORMAL: Final = 1006


class ClientDisconnected(ConnectionError):
    """The client has left, or its handshake was refused: no more can be sent. An ``OSError``, as ASGI requires."""


class WebSocketProtocol(asyncio.Protocol):
    """One WebSocket connection, from the request for it on."""

    def __init__(self, server: ServerState, scope: dict[str, Any]) -> None:
        """``scope``: that of the HTTP request for the upgrade."""
        self.transport: Any = None
        self._server = server
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._protocol = _Handshake(max_size=MESSAGE_BYTES, logger=LOG)
        self._accepting: Response | None = None
        """The response that accepts the handshake; None once a response was sent."""
        self._refusing: tuple[int, list[tuple[str, str]]] | None = None
        self._refusal_body = b""
        self._lost = False
        self._close_sent = False
        self._frames: list[bytes] = []
        self._is_text = False
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._unparsed = bytearray()
        self._parse_scheduled = False
        self._read_paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None
        self._ping = b""
        """The ping that has not been answered."""
        self._ping_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Write to the connection itself: batching has no limit, and an application that sends without pause, as a
        command's output is sent, would not notice that its client reads slowly."""
        self.transport = transport
        self.transport.set_write_buffer_limits(high=_UNSENT)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Put a disconnect message behind those that the application has not received."""
        self._lost = True
        self._stop_timers()
        self._server.connections.discard(self)
        self._put_disconnect(_ABNORMAL if self._accepting is not None else _NO_STATUS)
        self._unparsed.clear()
        # Event loops do not call `resume_writing` on a connection that is lost while it is paused.
        self._writable.set()
        # The library's parser refers to itself and would stay with all that it has read.
        self._protocol.parser.close()

    def pause_writing(self) -> None:
        """Let the application wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume the application, which waits to send."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Parse a part in each turn of the loop. Nothing more is read meanwhile."""
        if not self._unparsed and len(data) <= _TURN:
            self._parse(data)
            return
        self._unparsed += data
        self.transport.pause_reading()
        self._schedule_parsing()

    def shutdown(self) -> None:
        """Close the connection because the server ends."""
        self._stop_timers()
        if self._accepting is not None:
            self._reject(HTTPStatus.INTERNAL_SERVER_ERROR)
        elif self._protocol.state is State.OPEN and not self._close_sent:
            self._put_disconnect(_GOING_AWAY)
            self._protocol.send_close(_GOING_AWAY)
            self._flush()
        self.transport.close()

    # What the client sends

    def _schedule_parsing(self) -> None:
        # While the application has messages to take, the rest stays as it came: a message costs 50 times its two bytes.
        if not self._parse_scheduled and not self._read_paused:
            self._parse_scheduled = True
            self._loop.call_soon(self._parse_next)

    def _parse_next(self) -> None:
        self._parse_scheduled = False
        if self._lost:
            return
        data = bytes(self._unparsed[:_TURN])
        del self._unparsed[:_TURN]
        self._parse(data)
        if self._unparsed:
            self._schedule_parsing()
        elif not self._read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._handshake(event)
            elif isinstance(event, Frame):
                self._take(event)
        if (self._protocol.parser_exc or self._protocol.handshake_exc) is not None and not self._close_sent:
            # The library has written the close frame that names the fault, or nothing if the head was faulty.
            self._put_disconnect(self._protocol.close_code or _ABNORMAL)
            self._flush()
            self._close_sent = True
            self.transport.close()

    def _handshake(self, request: Request) -> None:
        response = self._protocol.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._close_sent = True
            self._protocol.send_response(response)
            self._flush()
            self.transport.close()
            return
        self._accepting = response
        values = [value for name, value in self._scope["headers"] if name == b"sec-websocket-protocol"]
        tokens = [token.strip() for value in values for token in value.decode("latin-1").split(",")]
        self._scope |= {
            "type": "websocket",
            "scheme": "wss" if self._scope["scheme"] == "https" else "ws",
            "subprotocols": [token for token in tokens if token],
            "extensions": {"websocket.http.response": {}, PEER_CERTIFICATE: peer_certificate(self.transport)},
        }
        self._messages.put_nowait({"type": "websocket.connect"})
        self._task = self._loop.create_task(self._run())
        self._server.tasks.add(self._task)

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            if frame.opcode is not Opcode.CONT:
                self._is_text = frame.opcode is Opcode.TEXT
                self._frames = []
            self._frames.append(bytes(frame.data))
            if frame.fin:
                self._put_message()
        elif frame.opcode is Opcode.PING:
            self._flush()  # the library has written the pong
        elif frame.opcode is Opcode.PONG:
            if bytes(frame.data) == self._ping:
                self._ping = b""
        elif frame.opcode is Opcode.CLOSE:
            self._closed_by_client()

    def _put_message(self) -> None:
        data, self._frames = b"".join(self._frames), []
        if self._close_sent:
            return
        if self._is_text:
            try:
                self._messages.put_nowait({"type": "websocket.receive", "text": data.decode()})
            except UnicodeDecodeError:
                self._put_disconnect(1007)
                self._close(1007, "")
                return
        else:
            self._messages.put_nowait({"type": "websocket.receive", "bytes": data})
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def _closed_by_client(self) -> None:
        if not self._close_sent and not self.transport.is_closing():
            received = self._protocol.close_rcvd
            code, reason = (received.code, received.reason) if received is not None else (_NO_STATUS, "")
            self._put_disconnect(code, reason)
            self._flush()  # the library has written the answer
        self.transport.close()

    # The application

    async def _run(self) -> None:
        try:
            await self._server.app(self._scope, self.receive, self.send)
        except (ClientDisconnected, asyncio.CancelledError):
            pass  # the client has left, or the server ends: neither is a fault of the application
        except BaseException:
            LOG.exception("Exception in the application")
            self._reject(HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            if self._accepting is not None and not self._lost:
                LOG.error("the application returned without answering the handshake")
                self._reject(HTTPStatus.INTERNAL_SERVER_ERROR)
        finally:
            self._server.tasks.discard(self._task)
            if self._close_timer is None:
                self.transport.close()

    async def receive(self) -> Message:
        """Return the next message. Parsing and reading go on when the application has taken all messages."""
        message = await self._messages.get()
        if self._messages.empty() and self._read_paused:
            self._read_paused = False
            if self._unparsed:
                self._schedule_parsing()
            elif not self.transport.is_closing():
                self.transport.resume_reading()
        return message

    async def send(self, message: Message) -> None:
        """Send a message; wait while the client's buffer is full.

        Raises:
            ClientDisconnected: the client has left, or its handshake was refused.
            RuntimeError: the message is out of order.
        """
        await self._writable.wait()
        if self._lost:
            raise ClientDisconnected
        kind = message["type"]
        if kind == "websocket.accept" and self._accepting is not None and self._refusing is None:
            self._accept(self._accepting, message)
        elif kind == "websocket.http.response.start" and self._accepting is not None and self._refusing is None:
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())]
            self._refusing = message["status"], headers
        elif kind == "websocket.http.response.body" and self._refusing is not None:
            self._refusal_body += message.get("body", b"")
            if not message.get("more_body"):
                self._refuse(*self._refusing)
        elif kind == "websocket.close" and self._accepting is not None:
            self._reject(HTTPStatus.FORBIDDEN)
        elif self._accepting is not None:
            raise RuntimeError(f"unexpected message {kind}: the handshake has not been answered")
        elif self._close_sent:
            raise ClientDisconnected
        elif kind == "websocket.close":
            self._close(message.get("code", 1000), message.get("reason") or "")
        elif kind == "websocket.send":
            self._send_data(message)
        else:
            raise RuntimeError(f"unexpected message {kind}")

    def _send_data(self, message: Message) -> None:
        try:
            if (data := message.get("bytes")) is not None:
                self._protocol.send_binary(data)
            else:
                self._protocol.send_text(message["text"].encode())
        except InvalidState as error:
            raise ClientDisconnected from error
        self._flush()

    def _accept(self, response: Response, message: Message) -> None:
        self._accepting = None
        if subprotocol := message.get("subprotocol"):
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        for name, value in message.get("headers", ()):
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
        self._protocol.send_response(response)
        self._flush()
        self._schedule_ping()

    def _refuse(self, status: int, headers: list[tuple[str, str]]) -> None:
        shown = Headers(headers)
        shown.setdefault("Date", self._server.date[len(b"date: ") : -2].decode())
        shown.setdefault("Connection", "close")
        shown.setdefault("Content-Length", str(len(self._refusal_body)))
        shown.setdefault("Content-Type", "text/plain; charset=utf-8")
        phrase = STATUS_LINES[status].split(None, 2)[2].strip().decode()
        self._answer_handshake(Response(status, phrase, shown, self._refusal_body))

    def _reject(self, status: HTTPStatus) -> None:
        """Refuse the handshake, if it has not been answered."""
        if self._accepting is not None:
            self._answer_handshake(self._protocol.reject(status, ""))

    def _answer_handshake(self, response: Response) -> None:
        self._accepting, self._close_sent = None, True
        self._put_disconnect(_ABNORMAL)
        self._protocol.send_response(response)
        self._flush()
        self.transport.close()

    def _close(self, code: int, reason: str) -> None:
        """Send a close frame and wait a while for the client's."""
        if self.transport.is_closing():
            return
        self._close_sent = True
        self._put_disconnect(code, reason)
        self._protocol.send_close(code, reason)
        self._flush()
        if self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()
        self._close_timer = self._loop.call_later(_CLOSE_SECONDS, self.transport.close)

    def _put_disconnect(self, code: int, reason: str = "") -> None:
        self._messages.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})

    def _flush(self) -> None:
        self.transport.write(b"".join(self._protocol.data_to_send()))

    # Pings

    def _schedule_ping(self) -> None:
        self._ping_timer = self._loop.call_later(PING_SECONDS, self._send_ping)

    def _send_ping(self) -> None:
        if self._close_sent or self.transport.is_closing():
            return
        if self._ping:
            self._protocol.fail(1011, "keepalive ping timeout")
            self._flush()
            self._close_sent = True
            self.transport.close()
            return
        self._ping = os.urandom(4)
        self._protocol.send_ping(self._ping)
        self._flush()
        self._schedule_ping()

    def _stop_timers(self) -> None:
        for timer in (self._ping_timer, self._close_timer):
            if timer is not None:
                timer.cancel()
        self._ping_timer = self._close_timer = None


class _Handshake(ServerProtocol):
    """Leaves the choice of a sub-protocol to the application.

    The library would refuse ``SPDY/3.1+portforward.k8s.io`` itself, for the slash in it.
    """

    def process_subprotocol(self, headers: Headers) -> Subprotocol | None:
        """Return None: the application decides."""
        return None
