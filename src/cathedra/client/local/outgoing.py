"""What goes out of one end of a connection: a few messages at a time at once, the rest when the turn of the loop ends.

If all that a turn makes went out in one piece, the two ends would take turns at working: the one that has answered
everything waits until the other has made everything that follows from it. So as soon as there is something to do it is
told, and both work at the same time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any, Final

from cathedra.client.local.frames import FULL_BYTES, write_frame

__all__ = ["AT_ONCE", "Outgoing"]

AT_ONCE: Final = 8
"""So many messages do not wait for the end of the turn, where each is a request or an answer: a system call is cheap
beside the work that they cause."""


class Outgoing:
    """The messages of one connection. Its owner closes it when the connection is lost."""

    def __init__(
        self, transport: asyncio.Transport, more: Callable[[], None] = lambda: None, *, at_once: int = AT_ONCE
    ) -> None:
        """``more`` puts what else is to go out with the turn; it is called before the turn's last write. ``at_once``:
        so many messages do not wait for that."""
        self._transport = transport
        self._more = more
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._messages: list[Any] = []
        self._bytes = 0
        self._scheduled = False
        self._direct = None if transport.get_extra_info("ssl_object") else _DirectWrites(transport)
        """None: what goes out is encrypted by the transport."""

    def put(self, message: Any, size: int) -> None:
        """Send a message of about so many bytes, soon."""
        messages = self._messages
        messages.append(message)
        self._bytes += size
        if len(messages) >= self._at_once or self._bytes >= FULL_BYTES:
            self._write()
        elif not self._scheduled:
            self.schedule()

    def schedule(self) -> None:
        """See to it that `flush` is called when the turn has ended."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what waits."""
        try:
            self._more()
            self._write()
        finally:
            self._scheduled = False

    def close(self) -> None:
        """Let go of the connection; what was not sent is dropped."""
        self._messages, self._bytes = [], 0
        if self._direct is not None:
            self._direct.close()

    def _write(self) -> None:
        if not self._messages:
            return
        messages, self._messages, self._bytes = self._messages, [], 0
        if self._transport.is_closing():
            return
        frame = write_frame(messages)
        # Behind what the transport has not sent yet nothing can be sent at once.
        direct = None if self._transport.get_write_buffer_size() else self._direct
        sent = 0 if direct is None else direct.send(frame)
        if sent < len(frame):
            self._transport.write(frame[sent:] if sent else frame)


class _DirectWrites:
    """Writes past the transport: uvloop writes when the turn ends, whenever it is told to."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))

    def send(self, frame: bytearray) -> int:
        """Send at once what fits; how many bytes that were."""
        try:
            return self._socket.send(frame, socket.MSG_DONTWAIT)
        except OSError:
            # It is full, or has gone: the transport waits, or tells its protocol.
            return 0

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()
