"""The client's end of a session: the requests and watches of all users of a process over one connection.

Requests are pipelined: each has a number, and answers arrive in any order. What one turn of the event loop sends is
written in one piece (`cathedra.frames`).
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import Status
from cathedra.api.parts import SharedParts, reader_of
from cathedra.api.scheme import GroupVersionKind, type_of
from cathedra.api.status import StatusError, failure
from cathedra.api.struct import decode
from cathedra.api.undecodable import FAULTS, NotAnObject, Undecodable, UndecodableObject, identify
from cathedra.client.denials import Denials
from cathedra.client.servers import NotSent
from cathedra.client.transport import MalformedAnswer, Page, WatchEvent, undecodable_event
from cathedra.frames import BODY_LIMIT, FrameError, MessageReader, MessageWriter
from cathedra.session.protocol import (
    PROTOCOL,
    STATUS,
    Attach,
    Cancel,
    EndMessage,
    EventMessage,
    FailureMessage,
    FromServer,
    ListMessage,
    NotBegun,
    ObjectMessage,
    Payload,
    PlainMessage,
    ReceiveWindow,
    RequestMessage,
    Retiring,
    ServedOverHTTP,
    UseHTTP,
)

_LOG: Final = logging.getLogger(__name__)
CHECK_SECONDS: Final = 30.0
"""Interval in which a connection is checked for silence."""
MOST_SILENT: Final = 3
"""Checks in a row without a message, while something is under way, after which the server counts as hung. It sends
bookmarks every minute, and ends requests after a minute, so that a working server is never silent for that long."""
_ENVELOPE_BYTES: Final = 256
"""About the bytes of a request beside its body."""


class ConnectionRetired(ConnectionResetError):
    """A request was not begun, because the connection begins nothing more. Another connection can carry it."""


class ProtocolRefused(ConnectionError):
    """The server refuses the upgrade: it does not speak the protocol, or not with this client now."""


class SessionConnection(asyncio.Protocol, ABC):
    """A connection that is dialled with the first request, and again with the first request after it was lost."""

    def __init__(self, where: str, denials: Denials | None = None) -> None:
        """``where`` is the server in error texts. Refusals for want of a right are reported to ``denials``."""
        self._where = where
        self._denials = denials
        self._transport: asyncio.Transport | None = None
        self._writer: MessageWriter | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._tokens: list[tuple[str, str]] = []
        self._forms: dict[type, int] = {}
        self._readers: list[_Readers] = []
        self._parts = SharedParts()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listed: dict[int, list[Any]] = {}
        """The items of lists that are incomplete, by request."""
        self.retiring = False
        """True if the server begins nothing more here; the connection is closed when all requests are answered."""
        self._watches: dict[int, EventStream] = {}
        self._ids = 0
        self._checking: asyncio.TimerHandle | None = None
        self._heard = True
        """True if a message has arrived since the last check."""
        self._silent = 0
        self._clear()

    def _clear(self) -> None:
        self._reader = MessageReader(FromServer)
        self._received = ReceiveWindow()

    @abstractmethod
    async def dial(self) -> None:
        """Connect to the server, with this object as the protocol of the connection.

        Raises:
            ProtocolRefused: the server refuses the upgrade.
            OSError: it cannot be reached, or is not trusted.
        """

    def attach(self, token: str, agent: str) -> int:
        """Return the number of a user; it stays the same when the connection is dialled again."""
        self._tokens.append((token, agent))
        self._send(self._attachment(len(self._tokens) - 1))
        return len(self._tokens) - 1

    def form_of(self, kind: type) -> int:
        """Return the number of a type that objects are decoded to."""
        known = self._forms.get(kind)
        if known is None:
            known = self._forms[kind] = len(self._readers)
            read: Callable[[bytes], Any] = reader_of(kind)
            # A list of 100,000 pods takes 900 MB with each pod decoded by itself, and 300 MB with shared parts. That
            # takes half as long again, so single pods and the few objects of other kinds are decoded as they are.
            self._readers.append(_Readers(kind, read, partial(self._parts.read, kind) if kind is Pod else read))
        return known

    def next_id(self) -> int:
        """Return a new number for a request."""
        self._ids += 1
        return self._ids

    async def request(self, request: RequestMessage, *, probe: bool = False) -> Any:
        """Send a request and return its result: an object, a `Page` or None.

        The refusal of a ``probe`` is not reported as a missing right.

        Raises:
            StatusError: the server refuses; `ServedOverHTTP`, if sessions do not serve the request.
            ProtocolRefused: the server refuses the upgrade.
            ConnectionRetired: the request was not begun, and is to be sent over another connection.
            ConnectionError: the server cannot be reached, or the connection was lost before the answer.
        """
        # A request that finds the connection open makes no further await: nearly all do.
        if self._writer is None:
            await self._connected()
        self._send_request(request)
        answer = self._answers[request.id] = self._loop.create_future()
        try:
            return await answer
        except StatusError as refusal:
            if self._denials is not None and not probe:
                self._denials.note(refusal)
            raise
        except asyncio.CancelledError:
            # The server stops work on the request. A write that has begun is carried out all the same: whether it was,
            # a caller that is cancelled cannot know, as over HTTP.
            if self._answers.pop(request.id, None) is not None:
                self._listed.pop(request.id, None)
                self._send(Cancel(request.id))
            raise
        finally:
            if self.retiring:
                self._close_when_answered()

    async def watch(self, request: RequestMessage) -> EventStream:
        """Send a watch and return its stream, which the caller closes. A refusal arrives with the stream.

        Raises:
            ProtocolRefused: the server refuses the upgrade.
            ConnectionRetired: the watch was not begun, and is to be sent over another connection.
            ConnectionError: the server cannot be reached.
        """
        await self._connected()
        self._send_request(request)
        watching = EventStream(lambda: self._leave(request.id), bookmarks=request.options.bookmarks)
        self._watches[request.id] = watching
        return watching

    def close(self) -> None:
        """Close the connection, or end the attempt to connect. Requests under way fail with ConnectionResetError."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.close()
            self._lost("the connection was closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Attach the users: a new connection knows none of them, and its window is empty."""
        self._clear()
        self._loop = asyncio.get_running_loop()
        connected: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's are none of asyncio's, and the same
        self._transport, self._writer = connected, MessageWriter(connected)
        self._heard, self._silent = True, 0
        self._checking = self._loop.call_later(CHECK_SECONDS, self._check)
        # Attached in the same order, because requests name users by their position.
        for user in range(len(self._tokens)):
            self._send(self._attachment(user))

    def data_received(self, data: bytes) -> None:
        """Decode what arrived and resolve the requests and watches that it concerns."""
        self._heard = True
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    self._receive(message)
        except (FrameError, NotAnObject, LookupError) as error:
            # Once one message cannot be read, the counts of the two windows may differ: no later object is certain.
            _LOG.error("%s: %s", self._where, error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests and watches."""
        # A MemoryError has no text of its own.
        self._lost(str(exc) or repr(exc) if exc else "the API server has closed the connection")

    def _check(self) -> None:
        """Close the connection if the server has been silent for too long: it hangs, or is behind a proxy that has
        lost it. A load balancer keeps the connection open, and the kernel's keep-alive sees none of that."""
        self._checking = self._loop.call_later(CHECK_SECONDS, self._check)
        under_way = self._answers or any(watching.bookmarks for watching in self._watches.values())
        self._silent = 0 if self._heard or not under_way else self._silent + 1
        self._heard = False
        if self._silent >= MOST_SILENT and self._transport is not None:
            # Not closed: that would wait for the server to end TLS.
            self._transport.abort()
            self._lost(f"the API server has been silent for {MOST_SILENT * CHECK_SECONDS:g} s")

    async def _connected(self) -> None:
        if self._transport is not None:
            return
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect(), name="connection")
        connecting = self._connecting
        try:
            # Shielded: all callers share one attempt, and the cancellation of one must not fail the others.
            await asyncio.shield(connecting)
        except ProtocolRefused:
            raise
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            # `close` has ended the attempt, not this caller, which would otherwise end as if cancelled itself.
            if connecting.cancelled() and caller is not None and not caller.cancelling():
                raise ConnectionResetError(f"{self._where}: the connection was closed") from None
            raise
        except OSError as error:
            raise NotSent(f"{self._where}: {error.strerror or error}") from error

    async def _connect(self) -> None:
        try:
            await self.dial()
        finally:
            # Also after a failure, so that the next request dials anew instead of getting the old error for ever.
            self._connecting = None

    def _attachment(self, user: int) -> Attach:
        token, agent = self._tokens[user]
        return Attach(PROTOCOL, user, token, agent)

    def _send_request(self, request: RequestMessage) -> None:
        size = len(request.body)
        if size > BODY_LIMIT:
            raise failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
        if self._writer is None and self.retiring:
            raise ConnectionRetired(f"{self._where}: the connection ended before it was used")
        if self._writer is None:
            raise ConnectionResetError(f"{self._where}: the connection was lost")
        self._writer.put(request, size + _ENVELOPE_BYTES)

    def _leave(self, number: int) -> None:
        if self._watches.pop(number, None) is not None:
            self._send(Cancel(number))
            if self.retiring:
                self._close_when_answered()

    def _send(self, message: Attach | Cancel) -> None:
        if self._writer is not None:
            self._writer.put(message, _ENVELOPE_BYTES)

    def _receive(self, message: Any) -> None:
        kind = type(message)
        if kind is EventMessage:
            shown = self._object(message.object)
            watching = self._watches.get(message.id)
            # The watch was cancelled while its events were on the way. The object was counted above nevertheless.
            if watching is None:
                return
            if type(shown) is _UndecodablePayload:
                watching.show(undecodable_event(shown.type, message.change, shown.what))
            else:
                watching.show(WatchEvent(message.change, shown))
        elif kind is ObjectMessage:
            obj = self._object(message.object)
            if type(obj) is _UndecodablePayload:
                self._fail(message.id, UndecodableObject(obj.what))
            else:
                self._end(message.id, obj)
        elif kind is ListMessage:
            self._list(message)
        elif kind is PlainMessage:
            self._plain(message)
        elif kind is FailureMessage:
            self._refused(message)
        elif kind is EndMessage:
            self._end(message.id, None)
        elif kind is UseHTTP:
            self._fail(message.id, ServedOverHTTP())
        elif kind is NotBegun:
            self._fail(message.id, ConnectionRetired(f"{self._where}: the connection takes no more requests"))
        elif kind is Retiring:
            self.retiring = True
            self._close_when_answered()

    def _refused(self, message: FailureMessage) -> None:
        try:
            refusal = StatusError(decode(Status, message.status))
        except FAULTS as error:
            self._fail(message.id, MalformedAnswer(f"{self._where}: a refusal is no Status: {error}"))
            return
        if self._denials is not None and message.id in self._watches:
            self._denials.note(refusal)
        self._fail(message.id, refusal)

    def _close_when_answered(self) -> None:
        # Closed by the client, and only now: the server may still be sending answers to requests that it has begun.
        if not self._answers and not self._watches:
            self.close()

    def _plain(self, message: PlainMessage) -> None:
        answered = GroupVersionKind.parse(message.api_version, message.kind)
        try:
            answer = decode(Status if answered == STATUS else type_of(answered), message.body)
        except (LookupError, *FAULTS) as error:
            text = f"{self._where}: the answer {message.api_version} {message.kind} cannot be decoded: {error}"
            self._fail(message.id, MalformedAnswer(text))
        else:
            self._end(message.id, answer)

    def _list(self, message: ListMessage) -> None:
        objects = [self._listed_object(one) for one in message.objects]
        # Cancelled meanwhile; the objects had to be counted in any case.
        if message.id not in self._answers:
            return
        listed = self._listed.setdefault(message.id, [])
        listed += objects
        if message.resource_version:
            del self._listed[message.id]
            items = tuple([one for one in listed if type(one) is not _UndecodablePayload])
            undecodable = tuple([one.what for one in listed if type(one) is _UndecodablePayload])
            version = message.resource_version
            self._end(message.id, Page(items, version, message.continue_, message.remaining, undecodable))

    # An object counts even if its request was cancelled: the sender has counted it. One that arrived before has
    # no body; the same Python object is returned, so that comparisons by identity hold.
    def _object(self, shown: Payload) -> Any:
        """Return the object of a payload."""
        if not shown.body:
            return self._received.find(shown.number)
        form = self._readers[shown.number]
        return self._decode(form, form.read, shown)

    def _listed_object(self, shown: Payload) -> Any:
        """Return the object of a payload in a list."""
        if not shown.body:
            return self._received.find(shown.number)
        form = self._readers[shown.number]
        return self._decode(form, form.read_listed, shown)

    def _decode(self, form: _Readers, read: Callable[[bytes], Any], shown: Payload) -> Any:
        try:
            # Nesting is not checked: the server limits the nesting of what it stores, and is trusted here.
            obj = read(shown.body)
        except FAULTS as error:
            # Counted like the others, or the numbers of both ends would differ from here on.
            obj = _UndecodablePayload(form.kind, identify(form.kind, shown.body, error))
        self._received.add(obj)
        return obj

    def _end(self, number: int, answer: Any) -> None:
        waiting = self._answers.pop(number, None)
        if waiting is None:
            watching = self._watches.pop(number, None)
            if watching is not None:
                watching.end()
        # A done future belongs to a caller that was cancelled in this very turn.
        elif not waiting.done():
            waiting.set_result(answer)

    def _fail(self, number: int, error: Exception) -> None:
        waiting = self._answers.pop(number, None)
        if waiting is None:
            watching = self._watches.pop(number, None)
            if watching is not None:
                watching.end(error)
        elif not waiting.done():
            waiting.set_exception(error)

    def _lost(self, why: str) -> None:
        self._transport = None
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._listed.clear()
        # A copy: each failure removes its entry.
        for number in (*self._answers, *self._watches):
            self._fail(number, ConnectionResetError(f"{self._where}: {why}"))


class _Readers(NamedTuple):
    """A type of objects, and the readers of one of them and of those of a list."""

    kind: type[Any]
    read: Callable[[bytes], Any]
    read_listed: Callable[[bytes], Any]


class _UndecodablePayload(msgspec.Struct, frozen=True):
    """An object that arrived and cannot be decoded, with the type that was expected."""

    type: type[Any]
    what: Undecodable


class EventStream:
    """The events of one watch."""

    __slots__ = ("_cancel", "_ended", "_error", "_events", "_waiter", "bookmarks")

    def __init__(self, cancel: Callable[[], None], *, bookmarks: bool) -> None:
        self._cancel = cancel
        self.bookmarks = bookmarks
        """True if the server sends bookmarks, so that the watch is never silent for long."""
        self._events: list[WatchEvent[Any]] = []
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: Exception | None = None

    def show(self, event: WatchEvent[Any]) -> None:
        """Append an event; it is kept until it is taken."""
        self._events.append(event)
        if self._waiter is not None:
            self._wake()

    def end(self, error: Exception | None = None) -> None:
        """End the stream after the events that it has."""
        self._ended, self._error = True, error
        self._wake()

    async def batches(self) -> AsyncIterator[Sequence[WatchEvent[Any]]]:
        """Yield events as they arrive, until the server ends the watch.

        Raises:
            StatusError: the watch is refused or ends with an error.
            ConnectionError: the connection was lost.
        """
        while True:
            while self._events:
                arrived, self._events = self._events, []
                yield arrived
            if self._ended:
                if self._error is not None:
                    raise self._error
                return
            await self._wait()

    def close(self) -> None:
        """Cancel the watch at the server."""
        self._cancel()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
