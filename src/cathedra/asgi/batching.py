"""Batched writes: what is written to a connection in one turn of the event loop is sent as one piece.

`BatchingTransport` stands between an HTTP connection's protocol and its socket; `WriteBatch` is shared by all
connections of a server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final, TypeAlias

LARGE: Final = 65_536
"""Size in bytes from which copying a piece costs more than sending it separately."""
MOST_UNREAD: Final = 512 * 1024 * 1024
"""Limit of the bytes of large responses that wait for the clients of a server."""
LOG: Final = logging.getLogger(__name__)
_Data: TypeAlias = bytes | bytearray | memoryview


class WriteBatch:
    """The transports that were written to in this turn of the loop, and the large responses that wait for clients."""

    def __init__(self) -> None:
        self._written: list[BatchingTransport] = []
        self._unread: dict[BatchingTransport, list[_Data]] = {}
        """Large pieces by client, the client that has been behind for longest first."""
        self._holders: dict[int, int] = {}
        """Number of clients that each piece waits for, by the piece's identity: clients share the bytes of a list."""
        self._unread_bytes = 0

    def hold(self, transport: BatchingTransport, piece: _Data) -> None:
        """Count a large piece that waits for a client. Above `MOST_UNREAD`, disconnect those behind for longest."""
        self._unread.setdefault(transport, []).append(piece)
        holders = self._holders.get(id(piece), 0)
        self._holders[id(piece)] = holders + 1
        if not holders:
            self._unread_bytes += len(piece)
        while self._unread_bytes > MOST_UNREAD and len(self._unread) > 1:
            LOG.warning("a connection is closed: too much waits for clients that do not read")
            next(iter(self._unread)).abort()

    def leave(self, transport: BatchingTransport) -> None:
        """Stop counting the pieces of a client."""
        for piece in self._unread.pop(transport, ()):
            holders = self._holders[id(piece)] - 1
            if holders:
                self._holders[id(piece)] = holders
            else:
                del self._holders[id(piece)]
                self._unread_bytes -= len(piece)

    def add(self, transport: BatchingTransport, loop: asyncio.AbstractEventLoop) -> None:
        """Flush ``transport``, which is not in the batch yet, in the next turn of the loop."""
        if not self._written:
            loop.call_soon(self._end)
        self._written.append(transport)

    def _end(self) -> None:
        written, self._written = self._written, []
        for transport in written:
            try:
                transport.flush()
            except Exception:  # a fault of one connection must not hold back the responses of the others
                LOG.exception("a response could not be sent")
                transport.abort()


class BatchingTransport(asyncio.Transport):
    """A transport that sends what is written in one turn of the loop as one piece.

    Head and body of a response are written separately, and each would be a TLS record and a system call of its own:
    half of the cost of a small response. Events of a watch, which are batched already, are sent at once (`send`).

    A large response is sent as its client reads it, because what TLS has encrypted is a copy for this connection alone.
    """

    __slots__ = ("_batch", "_ending", "_gone", "_loop", "_paused", "_rest", "_scheduled", "_transport", "_waiting")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, batch: WriteBatch) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._batch = batch
        self._waiting: list[_Data] = []
        self._scheduled = False
        self._rest: deque[_Data] = deque()
        """The unsent rest of a large piece, and the pieces that were written after it."""
        self._paused = False
        """True while the socket's buffer is full."""
        self._gone = False
        """True once the connection is lost or aborted."""
        self._ending = False
        """True if the connection closes when the rest is sent."""

    @property
    def has_rest(self) -> bool:
        """Return True if a part of a large piece is unsent."""
        return bool(self._rest)

    def pause(self) -> None:
        """Hold back the rest of large pieces."""
        self._paused = True

    def resume(self) -> None:
        """Send the rest of large pieces."""
        self._paused = False
        self._send_rest()

    def drop(self) -> None:
        """Drop all unsent data: the connection is lost or is being aborted."""
        self._gone = True
        self._waiting.clear()
        self._rest.clear()
        self._batch.leave(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about the connection: its addresses, its TLS object."""
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass received data to another protocol."""
        self._transport.set_protocol(protocol)

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the buffer size from which on the protocol is paused. Without effect once the connection is closed."""
        if not self._transport.is_closing():  # uvloop's transport raises then
            self._transport.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        """Return True if the connection is closed or about to be."""
        return self._ending or self._transport.is_closing()

    def abort(self) -> None:
        """Close at once and drop unsent data."""
        gone = self._gone
        self.drop()
        # The TLS transport of asyncio in Python 3.11.2 raises AttributeError once its connection is lost.
        if not gone:
            self._transport.abort()

    def write(self, data: _Data) -> None:
        """Send in the next turn of the loop; large pieces at once, after what was written before."""
        self._waiting.append(data)
        if len(data) >= LARGE:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._batch.add(self, self._loop)

    def send(self, data: _Data) -> None:
        """Send at once, after what was written before."""
        if self._waiting or self._rest:
            self._waiting.append(data)
            self.flush()
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send everything and close."""
        self.flush()
        if self._rest and not self._transport.is_closing():
            self._ending = True
        else:
            self._transport.close()

    def detached(self) -> asyncio.Transport:
        """Send everything and return the socket's own transport."""
        self.flush()
        self._paused = False
        while self._rest and not self._transport.is_closing():
            self._transport.write(self._rest.popleft())
        return self._transport

    def flush(self) -> None:
        """Send what was written."""
        self._scheduled = False
        waiting = self._waiting
        if not waiting:
            return
        self._waiting = []
        if self._transport.is_closing():
            return
        if self._rest:
            self._rest.extend(waiting)
            for piece in waiting:
                if len(piece) >= LARGE:
                    self._batch.hold(self, piece)
            return
        last = waiting[-1]
        if len(last) >= LARGE:
            del waiting[-1]
            if waiting:
                self._transport.write(b"".join(waiting))
            self._send_large(last)
        else:
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))

    def _send_large(self, data: _Data) -> None:
        # In slices: TLS keeps a buffer of the size of the largest write for each connection, and what fits into the
        # processor's cache is encrypted and sent in a seventh less time.
        self._rest.append(data)
        self._send_rest()
        if self._rest:
            self._batch.hold(self, data)

    def _send_rest(self) -> None:
        rest = self._rest
        while rest and not self._paused:
            if self._transport.is_closing():
                rest.clear()
                return
            data = memoryview(rest[0])
            self._transport.write(data[:LARGE])
            if not rest:
                return  # the write has failed, and `drop` has emptied the deque
            if len(data) > LARGE:
                rest[0] = data[LARGE:]
            else:
                rest.popleft()
        if rest:
            return
        self._batch.leave(self)
        if self._ending:
            self._transport.close()
