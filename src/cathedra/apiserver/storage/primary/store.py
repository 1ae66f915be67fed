"""The replica's end of the line to its primary: writes are forwarded, and what is settled comes back in one order.

The line is a pair of connected sockets, which a child process inherits. It is never made again: a replica that has
lost its primary knows nothing of what is stored, so its process ends (`lost`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, Self

from cathedra.apiserver.storage.primary.messages import (
    AT_ONCE,
    ENVELOPE_BYTES,
    MOST_BYTES,
    Change,
    Content,
    Forward,
    FromPrimary,
    Question,
    Reached,
    Refused,
    Settled,
    Unserved,
)
from cathedra.apiserver.storage.protocol import Record, StorageError, StoreContent, StoreUnavailable, Superseded
from cathedra.frames import FrameError, MessageReader, MessageWriter

__all__ = ["Outcome", "PrimaryStore", "ResourceUnserved"]


class ResourceUnserved(StorageError):
    """Nothing was written: the primary serves the resource no longer."""


Outcome = int | Superseded | StorageError
"""What became of a write: the revision at which it was settled, or why it was not."""
_GONE: Final = "the API server that keeps the store has gone"


class PrimaryStore(asyncio.Protocol):
    """The store of another API server."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._outgoing: MessageWriter | None = None
        self._reader = MessageReader(FromPrimary, MOST_BYTES)
        self._records: list[Record] = []
        self._content: asyncio.Future[StoreContent] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._show: Callable[[Change], None] | None = None
        self._early: list[Change] = []
        """What was settled after the content, before it was asked for."""
        self._writes: dict[int, Callable[[Outcome], None]] = {}
        self._ids = 0
        self._asked: list[asyncio.Future[int]] = []
        """Who waits for the answer to the question that is under way; empty: none is."""
        self._next: list[asyncio.Future[int]] = []
        """Who waits for the answer to the one after it."""

    @classmethod
    async def over(cls, connected: socket.socket) -> Self:
        """The store at the other end of a connected unix socket."""
        connected.setblocking(False)
        store = cls()
        await asyncio.get_running_loop().create_unix_connection(lambda: store, sock=connected)
        return store

    @property
    def healthy(self) -> bool:
        """Whether the primary is there."""
        return self._outgoing is not None

    async def lost(self) -> None:
        """Wait until the primary has gone."""
        await asyncio.shield(self._lost)

    async def load(self) -> StoreContent:
        """Everything that is stored; what is settled later is shown from `follow` on.

        Raises:
            StoreUnavailable: the primary has gone.
        """
        return await asyncio.shield(self._content)

    def follow(self, show: Callable[[Change], None]) -> None:
        """Show every write of others after the content, in order."""
        self._show = show
        early, self._early = self._early, []
        for change in early:
            show(change)

    def forward(
        self,
        key: str,
        expected: int,
        spelled: tuple[bytes, bytes],
        settled: Callable[[Outcome], None],
        *,
        removal: bool = False,
        shown: bool = False,
    ) -> None:
        """Have an object written or removed, if its last write has the revision ``expected`` (0: there is none).

        With ``shown`` the last state of what is removed is written before.

        ``spelled`` is its JSON before and after its resource version. ``settled`` is called in a later turn of the
        loop, after `follow` has shown everything that was settled before.
        """
        if self._outgoing is None:
            asyncio.get_running_loop().call_soon(settled, StoreUnavailable(_GONE))
            return
        self._ids += 1
        self._writes[self._ids] = settled
        head, tail = spelled
        self._outgoing.put(
            Forward(self._ids, key, expected, head, tail, removal, shown), len(head) + len(tail) + ENVELOPE_BYTES
        )

    async def latest(self) -> int:
        """Wait until everything has been shown that any server acknowledged before this call; how far that is.

        The answer to a question says nothing of what was acknowledged after the primary had read it. So callers that
        come while one is under way share the next one.

        Raises:
            StoreUnavailable: the primary has gone.
        """
        if self._outgoing is None:
            raise StoreUnavailable(_GONE)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._next.append(answer)
        if not self._asked:
            self._ask(self._outgoing)
        return await answer

    async def close(self) -> None:
        """Let go of the line."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The line stands."""
        connected: Any = transport
        self._transport, self._outgoing = connected, MessageWriter(connected, at_once=AT_ONCE)

    def data_received(self, data: bytes) -> None:
        """Take what the primary says."""
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    self._take(message)
        except FrameError:
            if self._transport is not None:
                self._transport.close()
            raise

    def connection_lost(self, exc: Exception | None) -> None:
        """What is under way may have been kept all the same."""
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        for settled in self._writes.values():
            settled(StoreUnavailable(_GONE, unknown=True))
        self._writes.clear()
        unanswered: list[asyncio.Future[Any]] = [*self._asked, *self._next, self._content]
        for waiting in unanswered:
            if not waiting.done():
                waiting.set_exception(StoreUnavailable(_GONE))
                waiting.exception()  # it may not be waited for
        self._asked, self._next = [], []
        if not self._lost.done():
            self._lost.set_result(None)

    def _take(self, message: Any) -> None:
        kind = type(message)
        if kind is Change:
            if self._show is None:
                self._early.append(message)
            else:
                self._show(message)
        elif kind is Settled:
            self._writes.pop(message.id)(message.revision)
        elif kind is Refused:
            self._writes.pop(message.id)(_refusal(message))
        elif kind is Unserved:
            self._writes.pop(message.id)(ResourceUnserved("the resource is not served"))
        elif kind is Reached:
            self._answer(message.revision)
        elif kind is Content:
            self._records += [Record(*record) for record in message.records]
            if message.last:
                records, self._records = self._records, []
                self._content.set_result(StoreContent(message.revision, records))

    def _ask(self, outgoing: MessageWriter) -> None:
        """Put the question for those who wait for the next one."""
        self._asked, self._next = self._next, []
        outgoing.put(Question(), ENVELOPE_BYTES)

    def _answer(self, revision: int) -> None:
        """Let those go on whose question is answered, and put the next one, if it is wanted."""
        answered, self._asked = self._asked, []
        for waiting in answered:
            if not waiting.done():  # else its caller was cancelled meanwhile
                waiting.set_result(revision)
        if self._next and self._outgoing is not None:
            self._ask(self._outgoing)


def _refusal(message: Refused) -> Superseded | StorageError:
    return StorageError(message.failure) if message.failure else Superseded(message.revision)
