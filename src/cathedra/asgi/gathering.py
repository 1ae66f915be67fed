"""What is written to a connection in one turn of the loop, sent as one piece.

Between uvicorn's protocols, which write an answer piece by piece, and the transport of the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final, TypeAlias

from cathedra.asgi.exchange import LARGE

__all__ = ["GatheringTransport", "Turn"]

MOST_UNREAD: Final = 512 * 1024 * 1024
"""Bytes of large answers that may wait for all clients of a server to take them."""
LOG: Final = logging.getLogger(__name__)
_Data: TypeAlias = bytes | bytearray | memoryview


class Turn:
    """The transports on which something was written in this turn of the loop; they send it together in the next."""

    def __init__(self) -> None:
        self._written: list[GatheringTransport] = []
        self._unread: dict[GatheringTransport, list[_Data]] = {}
        """Large pieces that wait for their clients, in the order in which these fell behind."""
        self._holders: dict[int, int] = {}
        """Number of clients that a piece waits for, by its identity: some lists are shared."""
        self._unread_bytes = 0

    def hold(self, transport: GatheringTransport, piece: _Data) -> None:
        """A large piece waits for a client. If there are too many, those are cut who are behind for longest."""
        self._unread.setdefault(transport, []).append(piece)
        holders = self._holders.get(id(piece), 0)
        self._holders[id(piece)] = holders + 1
        if not holders:
            self._unread_bytes += len(piece)
        while self._unread_bytes > MOST_UNREAD and len(self._unread) > 1:
            LOG.warning("a connection is closed: too much waits for clients that do not read")
            next(iter(self._unread)).abort()

    def leave(self, transport: GatheringTransport) -> None:
        """Nothing waits for a client any more."""
        for piece in self._unread.pop(transport, ()):
            holders = self._holders[id(piece)] - 1
            if holders:
                self._holders[id(piece)] = holders
            else:
                del self._holders[id(piece)]
                self._unread_bytes -= len(piece)

    def add(self, transport: GatheringTransport, loop: asyncio.AbstractEventLoop) -> None:
        """Something waits in it; it is not here yet."""
        if not self._written:
            loop.call_soon(self._end)
        self._written.append(transport)

    def _end(self) -> None:
        written, self._written = self._written, []
        for transport in written:
            try:
                transport.flush()
            except Exception:  # one connection must not keep the answers on the others
                LOG.exception("an answer could not be sent")
                transport.abort()


class GatheringTransport(asyncio.Transport):
    """A transport that sends what is written in one turn of the loop as one piece.

    uvicorn writes the head of an answer and its body one by one, and each would become a TLS record and a system call
    of its own: half of what a small answer costs. What is gathered already, as the events of a watch, is sent at once.

    A large answer goes out as its client takes it: what TLS encrypts is a copy for this connection alone. Of what waits
    so for all clients there are `MOST_UNREAD` bytes at most.
    """

    __slots__ = ("_ending", "_gone", "_loop", "_paused", "_rest", "_scheduled", "_transport", "_turn", "_waiting")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, turn: Turn) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._turn = turn
        self._waiting: list[_Data] = []
        self._scheduled = False
        self._rest: deque[_Data] = deque()
        """The rest of a large piece, and the pieces that were written behind it."""
        self._paused = False
        """True if the client is behind."""
        self._gone = False
        """True if nothing is sent any more."""
        self._ending = False
        """True if it closes when nothing is left."""

    @property
    def has_rest(self) -> bool:
        """Return True if a part of what was written waits for the client."""
        return bool(self._rest)

    def pause(self) -> None:
        """The client is behind: what is left of large pieces waits."""
        self._paused = True

    def resume(self) -> None:
        """The client takes more."""
        self._paused = False
        self._send_rest()

    def drop(self) -> None:
        """Drop what waits for a client that has gone, or is to go."""
        self._gone = True
        self._waiting.clear()
        self._rest.clear()
        self._turn.leave(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport itself knows: addresses, TLS."""
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what arrives to another protocol."""
        self._transport.set_protocol(protocol)

    def pause_reading(self) -> None:
        """Let what arrives wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take what arrives again."""
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how much may be buffered before its protocol is paused; without effect once it is closed."""
        if not self._transport.is_closing():  # uvloop's transport raises then
            self._transport.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._ending or self._transport.is_closing()

    def abort(self) -> None:
        """Close at once; what waits is lost."""
        gone = self._gone
        self.drop()
        # The TLS transport of asyncio in Python 3.11.2 raises AttributeError once its connection is lost.
        if not gone:
            self._transport.abort()

    def write(self, data: _Data) -> None:
        """Send soon; large pieces at once, behind what waits."""
        self._waiting.append(data)
        if len(data) >= LARGE:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._turn.add(self, self._loop)

    def send(self, data: _Data) -> None:
        """Send at once, behind what waits."""
        if self._waiting or self._rest:
            self._waiting.append(data)
            self.flush()
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send what waits and close."""
        self.flush()
        if self._rest and not self._transport.is_closing():
            self._ending = True
        else:
            self._transport.close()

    def detached(self) -> asyncio.Transport:
        """The transport itself, behind everything that was written until now."""
        self.flush()
        self._paused = False
        while self._rest and not self._transport.is_closing():
            self._transport.write(self._rest.popleft())
        return self._transport

    def flush(self) -> None:
        """Send what waits."""
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
                    self._turn.hold(self, piece)
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
        """Send a piece at a time: TLS keeps a buffer of its largest piece for each connection, and what fits into the
        processor's cache is encrypted and sent in a seventh less time."""
        self._rest.append(data)
        self._send_rest()
        if self._rest:
            self._turn.hold(self, data)

    def _send_rest(self) -> None:
        rest = self._rest
        while rest and not self._paused:
            if self._transport.is_closing():
                rest.clear()
                return
            data = memoryview(rest[0])
            self._transport.write(data[:LARGE])
            if not rest:
                return  # dropped meanwhile
            if len(data) > LARGE:
                rest[0] = data[LARGE:]
            else:
                rest.popleft()
        if rest:
            return
        self._turn.leave(self)
        if self._ending:
            self._transport.close()
