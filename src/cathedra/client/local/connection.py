"""One socket for all users of a process: requests are pipelined, and a turn of the loop writes once."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import Status
from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.status import StatusError, failure
from cathedra.api.struct import decode, decoder_of
from cathedra.client.local.frames import MOST_BYTES, FrameError, MessageReader
from cathedra.client.local.messages import (
    PROTOCOL,
    STATUS,
    Attach,
    Cancel,
    Ended,
    Event,
    FromServer,
    Listed,
    LocalRequest,
    ObjectAnswer,
    Plain,
    Shown,
    StatusFailure,
)
from cathedra.client.local.outgoing import Outgoing
from cathedra.client.local.window import ReceivedObjects
from cathedra.client.transport import EventType, Page, WatchEvent

__all__ = ["LocalConnection", "peer_user"]

_LOG: Final = logging.getLogger(__name__)
_ENVELOPE_BYTES: Final = 256
"""What a request has beside its body, about."""
_CREDENTIALS: Final = struct.Struct("3i")
"""The kernel's ``ucred``: process, user and group."""
_LARGEST_BODY: Final = MOST_BYTES // 2


def peer_user(transport: asyncio.BaseTransport) -> int:
    """The user id of the process at the other end of a unix socket, as the kernel knows it.

    Raises:
        OSError: the connection has gone.
    """
    connection = transport.get_extra_info("socket")
    shown = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(shown)
    return int(user)


class LocalConnection(asyncio.Protocol):
    """The client's end. It connects with the first request, and again with the first one after it was lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._transport: asyncio.Transport | None = None
        self._outgoing: Outgoing | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._tokens: list[tuple[str, str]] = []
        self._forms: dict[type, int] = {}
        self._decoders: list[msgspec.json.Decoder[Any]] = []
        self._pending: dict[int, _Pending] = {}
        self._ids = 0
        self._clear()

    def _clear(self) -> None:
        self._reader = MessageReader(FromServer)
        self._received = ReceivedObjects()

    def attach(self, token: str, agent: str) -> int:
        """The number of a user on this connection, on every one that is made."""
        self._tokens.append((token, agent))
        self._send(self._attachment(len(self._tokens) - 1))
        return len(self._tokens) - 1

    def form_of(self, kind: type) -> int:
        """The number of a type that objects are decoded to."""
        known = self._forms.get(kind)
        if known is None:
            known = self._forms[kind] = len(self._decoders)
            self._decoders.append(decoder_of(kind))
        return known

    def next_id(self) -> int:
        """A number for a request."""
        self._ids += 1
        return self._ids

    async def request(self, request: LocalRequest) -> Any:
        """Send a request and wait for the answer: an object, a `Page` or None.

        Raises:
            StatusError: the server refuses.
            ConnectionError: it cannot be reached, or went away before it answered.
        """
        await self._connected()
        pending = self._begin(request)
        try:
            return await pending.answer
        except asyncio.CancelledError:
            self._cancel(request.id)
            raise

    async def watch(self, request: LocalRequest) -> Watching:
        """Begin a watch; its owner closes it.

        Raises:
            ConnectionError: the server cannot be reached.
        """
        await self._connected()
        return Watching(self._begin(request), lambda: self._cancel(request.id))

    def close(self) -> None:
        """End the connection; what waits for answers fails."""
        if self._transport is not None:
            self._transport.close()
            self._lost("the connection was closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Attach the users."""
        self._clear()
        connected: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are none of asyncio's, and the same
        self._transport, self._outgoing = connected, Outgoing(connected)
        for user in range(len(self._tokens)):
            self._send(self._attachment(user))

    def data_received(self, data: bytes) -> None:
        """Hand out what arrived."""
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    self._receive(message)
        except (FrameError, msgspec.DecodeError, LookupError) as error:
            _LOG.error("%s: %s", self._path, error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let everything that waits know."""
        self._lost(str(exc) if exc else "the API server has closed the connection")

    async def _connected(self) -> None:
        if self._transport is not None:
            return
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect(), name="local connection")
        try:
            await asyncio.shield(self._connecting)
        except OSError as error:
            raise ConnectionError(f"{self._path}: {error.strerror or error}") from error

    async def _connect(self) -> None:
        try:
            transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, str(self._path))
            if peer_user(transport) != os.geteuid():
                transport.close()
                raise ConnectionRefusedError("another user's process listens there")
        finally:
            self._connecting = None

    def _attachment(self, user: int) -> Attach:
        token, agent = self._tokens[user]
        return Attach(PROTOCOL, user, token, agent)

    def _begin(self, request: LocalRequest) -> _Pending:
        if len(request.body) > _LARGEST_BODY:
            raise failure(413, "RequestEntityTooLarge", f"a body of {len(request.body)} bytes is too large")
        pending = self._pending[request.id] = _Pending()
        self._send(request, len(request.body))
        return pending

    def _cancel(self, number: int) -> None:
        if self._pending.pop(number, None) is not None:
            self._send(Cancel(number))

    def _send(self, message: Any, size: int = 0) -> None:
        if self._outgoing is not None:
            self._outgoing.put(message, size + _ENVELOPE_BYTES)

    def _receive(self, message: Any) -> None:
        if type(message) is Event:
            shown = self._object(message.object)
            pending = self._pending.get(message.id)
            if pending is not None:
                pending.show(WatchEvent(_TYPES[message.change], shown))
        elif type(message) is ObjectAnswer:
            self._end(message.id, self._object(message.object))
        elif type(message) is Listed:
            self._list(message)
        elif type(message) is Plain:
            kind = GroupVersionKind.parse(message.api_version, message.kind)
            self._end(message.id, decode(Status if kind == STATUS else type_of(kind), message.body))
        elif type(message) is StatusFailure:
            self._fail(message.id, StatusError(decode(Status, message.status)))
        elif type(message) is Ended:
            self._end(message.id, None)

    def _list(self, message: Listed) -> None:
        objects = [self._object(one) for one in message.objects]
        pending = self._pending.get(message.id)
        if pending is None:
            return
        pending.objects += objects
        if message.resource_version:
            page = Page(tuple(pending.objects), message.resource_version, message.continue_, message.remaining)
            self._end(message.id, page)

    def _object(self, shown: Shown) -> Any:
        """The object, counted also where its request was given up: later messages may mean it by its number."""
        if not shown.body:
            return self._received.find(shown.number)
        # The server bounds the nesting of what it stores, and is trusted here.
        obj = self._decoders[shown.number].decode(shown.body)
        self._received.add(obj)
        return obj

    def _end(self, number: int, answer: Any) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.end(answer)

    def _fail(self, number: int, error: Exception) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.fail(error)

    def _lost(self, why: str) -> None:
        self._transport = None
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        waiting, self._pending = self._pending, {}
        for pending in waiting.values():
            pending.fail(ConnectionResetError(f"{self._path}: {why}"))


class _Pending:
    """A request that is under way: its answer, and the events of a watch that are not taken yet."""

    __slots__ = ("_waiter", "answer", "events", "objects")

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.objects: list[Any] = []
        self.events: deque[WatchEvent[Any]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def show(self, event: WatchEvent[Any]) -> None:
        """Keep an event until it is taken."""
        self.events.append(event)
        self._wake()

    def end(self, answer: Any) -> None:
        """Answer the request, or end the watch."""
        if not self.answer.done():
            self.answer.set_result(answer)
        self._wake()

    def fail(self, error: Exception) -> None:
        """Refuse the request, or end the watch with an error, once what it has shown is taken."""
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # a watch that is left meanwhile asks for it no more
        self._wake()

    async def wait(self) -> None:
        """Wait for an event or the end."""
        if self.events or self.answer.done():
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Watching:
    """A watch that is under way, as an iterator over its events."""

    def __init__(self, pending: _Pending, cancel: Callable[[], None]) -> None:
        self._pending = pending
        self._cancel = cancel

    async def events(self) -> AsyncIterator[WatchEvent[Any]]:
        """Changes, until the server ends the watch.

        Raises:
            StatusError: it ends with an error.
            ConnectionError: the server has gone.
        """
        pending = self._pending
        while True:
            await pending.wait()
            while pending.events:
                yield pending.events.popleft()
            if pending.answer.done():
                pending.answer.result()
                return

    def close(self) -> None:
        """Watch no longer."""
        self._cancel()


_TYPES: Final = {kind.value: kind for kind in EventType}
