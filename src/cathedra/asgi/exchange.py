"""One request and its answer on an HTTP/1.1 connection.

uvicorn's own cycle takes an answer message by message, and looks at each header of it by itself: two calls through the
application, fourteen searches and two writes for an answer that was whole from the start. An application that has it
whole finds an `Exchange` under ``extensions["cathedra.exchange"]`` and sends it in one step. One that streams writes
to it at once, without waiting for its turn, as long as the client keeps up. ASGI's messages work all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from cathedra.asgi.direct import header_lines

__all__ = ["LARGE", "Exchange", "WriteFlow"]

LARGE: Final = 65_536
"""Bytes from which on joining costs more than another record."""


class WriteFlow(FlowControl):
    """uvicorn's flow control, which also calls whom it may concern when a client takes again what it is sent."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.callback: Callable[[], None] | None = None

    def resume_writing(self) -> None:
        """The client has taken most of what was sent."""
        paused = self.write_paused
        super().resume_writing()
        if paused and self.callback is not None:
            self.callback()


class Exchange(RequestResponseCycle):
    """One request and its answer."""

    flow: WriteFlow
    task: asyncio.Task[None] | None = None
    """What answers it, once it has begun."""
    _taken = False
    """Whether `arrived` has given the whole body away."""
    # What hardly any request asks for is said once, not for each: uvicorn's own cycle sets twenty attributes.
    logger = logging.getLogger("uvicorn.error")
    access_log = False
    chunked_encoding = None
    expected_content_length = 0

    def __init__(self, connection: HttpToolsProtocol, scope: Any, *, keep_alive: bool) -> None:
        """``keep_alive``: whether another request may follow on the ``connection``."""
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow  # type: ignore[assignment]  # ours, as connections make it
        self.default_headers = connection.server_state.default_headers
        self.message_event: Any = _UNAWAITED
        self.on_response = connection.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.body: Any = b""
        self.more_body = True
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self.awaited = False
        """Whether what arrives may be waited for, since a message has been asked for."""
        self._tasks = connection.tasks

    def add(self, piece: bytes) -> None:
        """Another piece of the body; most have one."""
        if not self.body:
            self.body = piece
        elif type(self.body) is bytearray:
            self.body += piece
        else:
            self.body = bytearray(self.body) + piece

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self.disconnected

    @property
    def ready(self) -> bool:
        """Whether the client is there and takes what it is sent."""
        return not (self.disconnected or self.flow.write_paused)

    def arrived(self) -> bytes | None:
        """The body of the request, if all of it is there: without a turn of the loop or a message."""
        if self.more_body or self.disconnected or self.waiting_for_100_continue:
            return None
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._taken = True
        body = bytes(self.body)
        self.body = b""
        return body

    def answer(self, status: int, head: bytes, body: bytes, tail: bytes = b"") -> None:
        """Send a whole answer. ``head`` are the lines of its headers, its length among them; how the connection goes on
        is not theirs to say.

        Raises:
            RuntimeError: an answer has begun already.
        """
        if self.response_started:
            raise RuntimeError("the answer has begun already")
        dated = header_lines(tuple(self.default_headers))
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        self.response_started = True
        self.waiting_for_100_continue = False
        # Written in the next turn of the loop, not at once: the requests that arrive until then are read together, and
        # so are the answers at the other end. Under load that is a tenth more requests.
        if tail and len(body) + len(tail) >= LARGE:
            self.transport.write(b"".join((STATUS_LINE[status], dated, head, end, body)))
            self.transport.write(tail)
        else:
            self.transport.write(b"".join((STATUS_LINE[status], dated, head, end, body, tail)))
        self.response_complete = True
        if self.awaited:
            self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def write(self, frames: bytes | memoryview) -> None:
        """Send more of a stream that has begun, as `framed` makes it."""
        if not (self.disconnected or self.response_complete):
            transport: Any = self.transport
            transport.send(frames)

    def abort(self) -> None:
        """Close the connection at once; what the client has not taken is dropped."""
        self.transport.abort()

    def break_off(self) -> None:
        """Close the connection in the middle of an answer, so that the client notices that the rest is missing."""
        self.disconnected = True
        self.transport.close()

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the client takes again what it is sent, after it had not; None: no more. Until
        then little is buffered: what waits with its owner may be shared."""
        self.flow.callback = callback
        if callback is None:
            self.transport.set_write_buffer_limits()
        else:
            self.transport.set_write_buffer_limits(high=LARGE)

    async def receive(self) -> Any:
        """The next message: a piece of the body, or that the client has left."""
        if not self.awaited:
            self.awaited = True
            self.message_event = asyncio.Event()
            if self.body or not (self.more_body or self._taken):
                self.message_event.set()
        return await super().receive()

    async def run_asgi(self, app: Any) -> None:
        """Let the application answer. What it leaves undone, or raises, is uvicorn's to tell."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            self.break_off()  # the server ends
        except BaseException as error:
            await super().run_asgi(_failing_with(error))
        else:
            if not (self.response_complete or self.disconnected):
                await super().run_asgi(_nothing_more)
        finally:
            self.on_response = _unheard
            self._tasks.discard(self.task)
            self.scope["extensions"].clear()  # they name this exchange, which would be a reference cycle


class _Unawaited:
    """In place of an event that is not waited for: most bodies are there when they are asked for."""

    def set(self) -> None:
        """Nothing to tell."""


_UNAWAITED: Final = _Unawaited()


def _unheard() -> None:
    """An answer that is over."""


async def _nothing_more(*_: Any) -> None:
    """An application that has returned."""


def _failing_with(error: BaseException) -> Any:
    """An application that has raised ``error``."""
    raised = [error]

    async def fail(*_: Any) -> None:
        raise raised.pop()  # so that no frame of its traceback names it

    return fail
