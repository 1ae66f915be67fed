"""Store of another API server of the cluster, over a pair of sockets that this process inherited.

The server that keeps the store is the primary. Both ends send small msgpack arrays around values as `Write` has them.
All that the primary sends is in the order in which it settles writes. So when an answer arrives, everything that was
settled before it has arrived, too. The connection is never made again: a process that has lost its primary ends
(`lost`) and is started again.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Self

import msgspec

from cathedra.apiserver.storage.protocol import (
    Record,
    StorageError,
    StoreContent,
    StoreProgress,
    StoreUnavailable,
    Superseded,
    Write,
)
from cathedra.frames import FrameError, MessageReader, MessageWriter

ENVELOPE_BYTES: Final = 64
"""Bytes of a message beside the value in it, about."""
AT_ONCE: Final = 32
"""Messages that do not wait for the end of a turn of the loop. Each causes some 10 µs of work at the other end, and a
frame costs both ends 30 µs."""
FRAME_BYTES: Final = 64 * 1024 * 1024
"""Bytes that a frame may have."""
LOADED: Final = 0
"""Number of the request for the content, which every server makes by connecting."""
_GONE: Final = "the API server that keeps the store has gone"


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """Write ``value`` (None: remove) if the last write of the key has the revision ``expected`` (0: there is none)."""

    id: int
    key: str
    expected: int
    value: bytes | None


class Question(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Send the present revision, as that of a settled write."""

    id: int


class Change(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A stored object when the connection is made; after the answer to `LOADED`, a settled write of another server."""

    key: str
    revision: int
    value: bytes | None


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A write of this server was settled at ``revision``, in the order of changes; or this is the present revision."""

    id: int
    revision: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A write of this server changed nothing: the key is at ``revision``, or the store failed (``failure``)."""

    id: int
    revision: int
    failure: str = ""


FromReplica = Forward | Question
FromPrimary: Any = Change | Settled | Refused


class PrimaryStore(asyncio.Protocol):
    """A `SharedStorage` that another API server keeps. Keys and values are those of a log (`LogLayout`)."""

    shares_revisions = False
    """Without effect: the primary gives each write a revision of its own."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outgoing: MessageWriter | None = None
        self._reader = MessageReader(FromPrimary, FRAME_BYTES)
        self._content: asyncio.Future[StoreContent] = loop.create_future()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._progress: list[Write] = []
        """In order: the content, until it is complete, then settled writes that `follow` has not yielded yet."""
        self._arrived: asyncio.Future[None] | None = None
        """Set while `follow` waits for further writes."""
        self._waiting: dict[int, tuple[Forward | Question, asyncio.Future[int]]] = {}
        """By their number: requests without an answer."""
        # Beginning at 1, because 0 is the number of the content (`LOADED`).
        self._numbers = itertools.count(1)

    @classmethod
    async def over(cls, connected: socket.socket) -> Self:
        """Return the store at the other end of a connected unix socket."""
        connected.setblocking(False)
        store = cls()
        await asyncio.get_running_loop().create_unix_connection(lambda: store, sock=connected)
        return store

    @property
    def problem(self) -> str:
        """That the primary has gone; "" while the connection stands."""
        return "" if self._outgoing is not None else _GONE

    async def lost(self) -> None:
        """Wait until the primary has gone."""
        # Shielded: a cancelled waiter must not cancel the future of the others.
        await asyncio.shield(self._lost)

    async def load(self, compacted: Callable[[int], None]) -> StoreContent:
        """Return everything that was stored when the connection was made. Nothing is ever compacted.

        Raises:
            StoreUnavailable: the primary has gone.
        """
        # As in `lost`.
        return await asyncio.shield(self._content)

    def write(self, key: str, value: bytes | None, *, expected: int) -> asyncio.Future[int]:
        """As `SharedStorage.write`. The revision is returned after `follow` could yield the write."""
        return self._send(Forward(next(self._numbers), key, expected, value), len(value or b""))

    def latest(self) -> asyncio.Future[int]:
        """As `SharedStorage.latest`. The revision is returned after `follow` could yield everything up to it."""
        return self._send(Question(next(self._numbers)))

    async def nudge(self) -> int:
        """Wait for an answer: all that was settled before it arrives before it."""
        return await self.latest()

    async def follow(self, after: int) -> AsyncGenerator[StoreProgress, None]:
        """Yield every write that was settled after the content, once.

        Raises:
            StoreUnavailable: the primary has gone.
        """
        while True:
            # Swapped without an await in between: a message that arrives meanwhile goes into the new list and is not
            # lost.
            writes, self._progress = self._progress, []
            if writes:
                yield StoreProgress(writes[-1].revision, tuple(writes))
                continue
            # Tested after the list, so that writes that arrived before the connection was lost are still yielded.
            if self._outgoing is None:
                raise StoreUnavailable(_GONE)
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived

    async def close(self) -> None:
        """Close the connection to the primary, if there is one."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send messages through this transport from now on."""
        connected: Any = transport
        self._transport, self._outgoing = connected, MessageWriter(connected, at_once=AT_ONCE)

    def data_received(self, data: bytes) -> None:
        """Take messages. The follower is woken before those that wait for answers, so it runs before them: then the
        tables hold what an answer is about."""
        answers: list[tuple[asyncio.Future[int], Any]] = []
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    self._take(message, answers)
        # A broken frame ends the connection: what follows cannot be interpreted, and a lost write would be silent.
        except FrameError:
            if self._transport is not None:
                self._transport.close()
            raise
        finally:
            # Also after an error: writes that were taken before it are settled and must be shown.
            self._wake()
            for waiting, answer in answers:
                _answer(waiting, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what waits. The outcome of writes under way is unknown: the primary may have kept them."""
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        self._wake()
        for request, waiting in self._waiting.values():
            # Unknown, so that the request ends with 504 instead of being carried out twice.
            _answer(waiting, StoreUnavailable(_GONE, unknown=type(request) is Forward))
        self._waiting.clear()
        _answer(self._content, StoreUnavailable(_GONE))
        if not self._lost.done():
            self._lost.set_result(None)

    def _send(self, request: Forward | Question, size: int = 0) -> asyncio.Future[int]:
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._outgoing is None:
            waiting.set_exception(StoreUnavailable(_GONE))
        else:
            # Before sending: the answer may arrive in the same turn of the loop.
            self._waiting[request.id] = request, waiting
            self._outgoing.put(request, ENVELOPE_BYTES + size)
        return waiting

    def _take(self, message: Any, answers: list[tuple[asyncio.Future[int], Any]]) -> None:
        kind = type(message)
        if kind is Change:
            self._progress.append(Write(message.key, message.revision, message.value))
        elif kind is Settled and message.id == LOADED:
            content, self._progress = self._progress, []
            records = [Record(one.key, one.revision, one.value or b"") for one in content]
            _answer(self._content, StoreContent(message.revision, records))
        elif kind is Settled:
            request, waiting = self._waiting.pop(message.id)
            if isinstance(request, Forward):
                self._progress.append(Write(request.key, message.revision, request.value))
            answers.append((waiting, message.revision))
        elif kind is Refused:
            failure = StorageError(message.failure) if message.failure else Superseded(message.revision)
            answers.append((self._waiting.pop(message.id)[1], failure))

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, None
        if arrived is not None and not arrived.done():
            arrived.set_result(None)


def _answer(waiting: asyncio.Future[Any], answer: Any) -> None:
    if waiting.done():
        return  # its caller was cancelled meanwhile
    if isinstance(answer, Exception):
        waiting.set_exception(answer)
        waiting.exception()  # marks it as retrieved: nothing may be waiting for it
    else:
        waiting.set_result(answer)
