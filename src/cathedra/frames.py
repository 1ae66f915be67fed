"""Frames: batches of messages on a connection, with their length in front.

A frame is four bytes, the length of what follows in network order, and a msgpack array of messages. One frame carries
what a turn of the event loop produces, so that it costs one system call. Sessions use it between parts and API server,
and several API servers between each other on a shared store.

Objects travel inside as the JSON that the store, the log and watches over HTTP have already: encoding an object a
second time as msgpack takes 18 µs for a pod and saves 13 µs of decoding.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

MOST_BYTES: Final = 16 * 1024 * 1024
"""Limit of the bytes of a frame."""
BODY_LIMIT: Final = 3 * 1024 * 1024
"""Limit of the bytes of a request's body, as over HTTP."""
MOST_ASKED: Final = 5 * 1024 * 1024
"""Limit of the bytes of a client's frame: a full batch and one more body."""
MOST_MESSAGES: Final = 8192
"""Limit of the messages of a frame."""
FULL_BYTES: Final = 1024 * 1024
"""Bytes of messages that are written without waiting for more."""
AT_ONCE: Final = 8
"""Messages that are written without waiting for the end of the turn, if each is a request or an answer: a system call
is cheap beside the work that they cause."""
_LENGTH: Final = struct.Struct(">I")
_ENCODER: Final = msgspec.msgpack.Encoder()


class FrameError(ValueError):
    """The other end violates the protocol; the connection must be closed."""


class MessageReader:
    """Decodes the messages of one connection from bytes as they arrive."""

    def __init__(self, messages: Any, most: int = MOST_BYTES) -> None:
        """``messages`` is the union of structs that may arrive; ``most`` limits the bytes of a frame."""
        self._most = most
        self._decoder: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[messages])
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[list[Any]]:
        """Yield the batches that are complete with ``data``.

        Raises:
            FrameError: a frame is too long, has too many messages, or holds something else.
        """
        self.add(data)
        while (batch := self.take()) is not None:
            yield batch

    def add(self, data: bytes) -> None:
        """Keep bytes that have arrived until their frames are taken."""
        self._buffer += data

    def take(self) -> list[Any] | None:
        """Return the next batch; None if none is complete.

        Raises:
            FrameError: a frame is too long, has too many messages, or holds something else.
        """
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if length > self._most:
            raise FrameError(f"a frame of {length} bytes; {self._most} are the most")
        end = _LENGTH.size + length
        if len(buffer) < end:
            return None
        body = bytes(memoryview(buffer)[_LENGTH.size : end])
        del buffer[:end]
        return self._batch(body)

    def _batch(self, body: bytes) -> list[Any]:
        # Counted before decoding: a frame of one-byte messages would otherwise become millions of structs.
        if _count(body) > MOST_MESSAGES:
            raise FrameError(f"a frame of more than {MOST_MESSAGES} messages")
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise FrameError(f"no frame of messages: {error}") from error


def write_frame(messages: Sequence[Any]) -> bytearray:
    """Return the frame that carries ``messages`` in order."""
    frame = bytearray(_LENGTH.size)
    _ENCODER.encode_into(messages, frame, _LENGTH.size)
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return frame


def _count(body: bytes) -> int:
    """Return the length of a msgpack array by its header."""
    first = body[0] if body else 0
    if first == 0xDC:
        return int.from_bytes(body[1:3], "big")
    if first == 0xDD:
        return int.from_bytes(body[1:5], "big")
    return first & 0x0F


class MessageWriter:
    """Writes the messages of one connection in batches. Its owner closes it when the connection is lost.

    A few messages are written at once and the rest at the end of the loop's turn. If everything went out at the end of
    the turn, the two processes would work in turns: one would wait until the other had finished all that follows from
    its answer. Written early, the first messages keep both busy at the same time.
    """

    def __init__(
        self, transport: asyncio.Transport, more: Callable[[], None] = lambda: None, *, at_once: int = AT_ONCE
    ) -> None:
        """``more`` is called before the last write of a turn and may put more messages.

        ``at_once`` is the number of messages that do not wait for the end of the turn.
        """
        self._transport = transport
        self._more = more
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._messages: list[Any] = []
        self._bytes = 0
        self._scheduled = False
        # Under TLS the transport has to encrypt: then nothing can be written past it.
        self._direct = None if transport.get_extra_info("ssl_object") else _DirectWrites(transport)

    def put(self, message: Any, size: int) -> None:
        """Send a message of about ``size`` bytes in this turn of the loop."""
        messages = self._messages
        messages.append(message)
        self._bytes += size
        if len(messages) >= self._at_once or self._bytes >= FULL_BYTES:
            self._write()
        elif not self._scheduled:
            self.schedule()

    def schedule(self) -> None:
        """Schedule `flush` for the end of this turn."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the messages that wait."""
        try:
            self._more()
            self._write()
        finally:
            # Reset last: what `more` puts is written by this flush and must not schedule another one.
            self._scheduled = False

    def close(self) -> None:
        """Drop unsent messages and release the connection."""
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
        # Bytes that the transport still buffers must go first, or frames would overtake each other.
        direct = None if self._transport.get_write_buffer_size() else self._direct
        sent = 0 if direct is None else direct.send(frame)
        if sent < len(frame):
            self._transport.write(frame[sent:] if sent else frame)


class _DirectWrites:
    """Writes on the transport's socket: uvloop itself writes only when the turn ends."""

    def __init__(self, transport: asyncio.Transport) -> None:
        # A duplicate, because closing it must not close the transport's own descriptor.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))

    def send(self, frame: bytearray) -> int:
        """Write what fits into the socket's buffer now and return the number of bytes."""
        try:
            return self._socket.send(frame, socket.MSG_DONTWAIT)
        except OSError:
            # Full or lost: the transport waits for room, or reports the loss to its protocol.
            return 0

    def close(self) -> None:
        """Close the duplicate of the socket."""
        self._socket.close()
