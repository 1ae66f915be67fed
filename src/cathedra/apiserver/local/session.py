"""One connection: its users, the requests under way, its watches, and what goes out in a turn of the loop.

It may be that of a process of the same cluster, over a unix socket, or that of one user over the network, whose
requests pay for seats and have deadlines. Nothing more is worked on for a client that does not take its answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import ObjectMeta, StatusDetails
from cathedra.api.status import StatusError, failure, internal_error, unauthorized
from cathedra.api.struct import KubeStruct, encode, replace
from cathedra.apiserver.authentication.authenticator import KnownTokens
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.consistency import may_be_outdated
from cathedra.apiserver.http.options import manager_named
from cathedra.apiserver.local.limits import Traffic, Turnstile
from cathedra.apiserver.local.records import Recorder, request_path
from cathedra.apiserver.local.requests import (
    RequestedResource,
    Routes,
    carry_out,
    list_options,
    not_served,
    plain_answer,
    refused,
)
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.watching import Seen
from cathedra.apiserver.request import Call
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.traffic.record import RequestRecord
from cathedra.apiserver.transport import InProcessTransport
from cathedra.apiserver.verbs.read import WatchStart
from cathedra.asgi.upgrade import Connections
from cathedra.client.local.frames import MOST_ASKED, FrameError, MessageReader
from cathedra.client.local.messages import (
    PROTOCOL,
    Again,
    Attach,
    Cancel,
    Ended,
    Event,
    FromClient,
    Listed,
    LocalRequest,
    ObjectAnswer,
    Retiring,
    Shown,
    StatusFailure,
)
from cathedra.client.local.outgoing import Outgoing
from cathedra.client.local.window import SentObjects
from cathedra.client.transport import EventType, Page

__all__ = ["MOST_REQUESTS", "LocalServer", "Session"]

LOG: Final = logging.getLogger(__name__)
MOST_REQUESTS: Final = 4096
"""Requests of a connection that are worked on at once; more are left in the socket."""
MOST_UNDER_WAY: Final = 16 * 1024 * 1024
"""Bytes of bodies of such requests."""
MOST_WATCHES: Final = 65_536
MOST_USERS: Final = 65_536
BOOKMARK_SECONDS: Final = 60.0
"""After which a watch without events is told how far it has come."""
RETIRING_SECONDS: Final = 60.0
"""For which a client may still take answers from a connection that begins nothing more."""
SLOW_SECONDS: Final = 60.0
"""For which a client may leave events lying in its connection; then it is cut."""
_BUFFERED: Final = 4 * 1024 * 1024
"""Bytes that may wait to be taken before watches are held up."""
_PIECE: Final = 512 * 1024
"""Bytes of objects in one message of a list, about."""
_ENVELOPE: Final = 64
"""What a message has beside its object, about."""


class LocalServer(msgspec.Struct, frozen=True):
    """What sessions need of the server."""

    registry: Registry
    catalog: Catalog
    tokens: KnownTokens
    recorder: Recorder
    transport_of: Callable[[UserInfo], InProcessTransport]
    most_users: int = MOST_USERS
    traffic: Traffic | None = None
    """None: requests take no seats, and as long as they need."""
    source: str = ""
    """The address of the client, for audit."""


class _User(msgspec.Struct, frozen=True):
    """A user of a connection."""

    info: UserInfo
    agent: str
    transport: InProcessTransport
    turnstile: Turnstile | None
    manager: str
    """The field manager of writes that name none."""


class _Watch:
    """A watch under way."""

    __slots__ = ("_first", "bookmarks", "call", "form", "id", "quiet", "record", "start")

    def __init__(self, request: LocalRequest, call: Call, start: WatchStart, record: RequestRecord) -> None:
        self.id = request.id
        self.form = request.form
        self.call = call
        self.start = start
        self.record = record
        self.bookmarks = request.options.bookmarks
        self.quiet = True
        """Whether nothing has been shown since it was last looked at."""
        self._first = start.initial_events()

    def taken(self) -> list[Seen]:
        """The events that wait now; at first, what is there already."""
        first, self._first = self._first, []
        return first + self.start.watcher.taken()


class Session(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, server: LocalServer, sessions: Connections) -> None:
        self._server = server
        self._sessions = sessions
        self._routes = Routes(server.catalog)
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._reader = MessageReader(FromClient, MOST_ASKED)
        self._sent = SentObjects()
        self._users: dict[int, _User] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._under_way = 0
        """Bytes of bodies."""
        self._watching: dict[int, asyncio.Task[None]] = {}
        """Watches that have not begun yet, and those whose objects a webhook converts."""
        self._watches: dict[int, _Watch] = {}
        self._ready: dict[int, None] = {}
        self._outgoing: Outgoing | None = None
        self._reading = True
        self._slow: asyncio.TimerHandle | None = None
        self._taken = asyncio.Event()
        """That the client is not behind."""
        self._taken.set()
        self._retiring: asyncio.TimerHandle | None = None
        self._bookmarks: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport
        self._sessions.add(self)
        self._outgoing = Outgoing(self._transport, self._take_events)
        self._transport.set_write_buffer_limits(high=_BUFFERED)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way; writes that have begun are carried out."""
        self._sessions.discard(self)
        self._stop_timer()
        for timer in (self._bookmarks, self._retiring):
            if timer is not None:
                timer.cancel()
        for task in (*self._tasks.values(), *self._watching.values()):
            self._loop.call_soon(task.cancel)  # one that has not begun yet would not end as one that has
        for watch in tuple(self._watches.values()):
            self._end_watch(watch)
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        self._transport = None

    def close(self) -> None:
        """End the connection, behind what was written."""
        if self._outgoing is not None:
            self._outgoing.flush()
            self._transport.close()

    shutdown = close
    """The server ends; how it tells the connections on its port."""

    def retire(self) -> None:
        """Begin nothing more: watches end, what is under way is answered, and the client goes on elsewhere."""
        if self._outgoing is None or self._retiring is not None:
            return
        self._retiring = self._loop.call_later(RETIRING_SECONDS, self.close)
        self._take_events()
        for watch in tuple(self._watches.values()):
            if watch.id not in self._ready:
                self._mark(watch)
            self._put(Ended(watch.id))
            self._end_watch(watch)
        for task in self._watching.values():
            self._loop.call_soon(task.cancel)
        self._put(Retiring())

    def data_received(self, data: bytes) -> None:
        """Begin what is asked for."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    if type(message) is LocalRequest:
                        self._begin(message)
                    else:
                        self._receive(message)
        except FrameError as error:
            LOG.warning("a connection is closed: %s", error)
            self._transport.close()

    def pause_writing(self) -> None:
        """The client is behind: hold up its requests and watches, but not for long."""
        self._slow = self._loop.call_later(SLOW_SECONDS, self._cut)
        self._taken.clear()
        self._read_or_wait()

    def resume_writing(self) -> None:
        """Go on."""
        self._stop_timer()
        self._taken.set()
        self._read_or_wait()
        if self._outgoing is not None and self._ready:
            self._outgoing.schedule()

    def _receive(self, message: Attach | Cancel) -> None:
        if type(message) is Cancel:
            self._cancel(message.id)
        elif type(message) is Attach:
            self._attach(message)

    def _attach(self, message: Attach) -> None:
        if message.protocol != PROTOCOL:
            raise FrameError(f"protocol {message.protocol}; this server speaks {PROTOCOL}")
        if len(self._users) >= self._server.most_users:
            raise FrameError("too many users")
        info = self._server.tokens.user_of(message.token)
        if info is None:
            LOG.warning("a connection showed a token that is not known")
            return
        transport, traffic = self._server.transport_of(info), self._server.traffic
        turnstile = None if traffic is None else Turnstile(traffic, transport.user)
        manager = "" if traffic is None else manager_named(message.agent)
        self._users[message.user] = _User(transport.user, message.agent, transport, turnstile, manager)

    def _begin(self, request: LocalRequest) -> None:
        if self._retiring is not None:
            self._put(Again(request.id))
            return
        user = self._users.get(request.user)
        if user is None:
            self._put(StatusFailure(request.id, refused(unauthorized())))
            return
        if request.id in self._tasks or request.id in self._watches or request.id in self._watching:
            raise FrameError(f"a second request {request.id}")
        record = self._server.recorder.begin(request, user.info, user.agent, self._server.source)
        if request.verb == "watch":
            if self._server.registry.shared:
                self._watching[request.id] = self._loop.create_task(self._watch_latest(request, user, record))
            else:
                self._watch(request, user, record)
            return
        task = self._loop.create_task(self._answer(request, user, record))
        self._tasks[request.id] = task
        self._under_way += len(request.body)
        if len(self._tasks) >= MOST_REQUESTS or self._under_way >= MOST_UNDER_WAY:
            self._read_or_wait()

    def _cancel(self, number: int) -> None:
        watch = self._watches.get(number)
        if watch is not None:
            self._end_watch(watch)
        task = self._tasks.get(number) or self._watching.get(number)
        if task is not None:
            self._loop.call_soon(task.cancel)  # one that has not begun yet would not end as one that has

    def _read_or_wait(self) -> None:
        """Read on, unless as much is under way as may be, or the client takes no answers."""
        full = len(self._tasks) >= MOST_REQUESTS or self._under_way >= MOST_UNDER_WAY
        less = len(self._tasks) < MOST_REQUESTS // 2 and self._under_way < MOST_UNDER_WAY // 2
        if self._transport is None or self._transport.is_closing():
            return
        if self._reading and (full or self._slow is not None):
            self._reading = False
            self._transport.pause_reading()
        elif not self._reading and less and self._slow is None:
            self._reading = True
            self._transport.resume_reading()

    async def _answer(self, request: LocalRequest, user: _User, record: RequestRecord) -> None:
        status, recorder = 499, self._server.recorder
        transport = user.transport.annotating(record.annotations) if recorder.audits else user.transport
        try:
            while self._slow is not None:
                await self._taken.wait()
            found, answer = await self._carried_out(request, user, transport, record)
            status = 201 if request.verb == "create" else 200
            self._show(request, found, answer, record)
        except StatusError as error:
            status = error.code
            self._put(StatusFailure(request.id, refused(error)))
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            status = 500
            self._put(StatusFailure(request.id, refused(internal_error(str(error)))))
        except Exception as error:
            # The last resort, as over HTTP: whatever failed, the client gets an answer.
            LOG.exception("%s %s failed", request.verb, request_path(request))
            status = 500
            self._put(StatusFailure(request.id, refused(internal_error(f"{type(error).__name__}: {error}"))))
        finally:
            recorder.end(record, status)
            del self._tasks[request.id]
            self._under_way -= len(request.body)
            if not self._reading:
                self._read_or_wait()

    async def _carried_out(
        self, request: LocalRequest, user: _User, transport: InProcessTransport, record: RequestRecord
    ) -> tuple[RequestedResource, Any]:
        """What a request asks of, and its answer, by a state in which everything is that was acknowledged before it.

        Raises:
            StatusError: it is refused.
        """
        registry = self._server.registry
        began = registry.revision
        try:
            return await self._attempted(request, user, transport)
        except StatusError as error:
            if not may_be_outdated(error.code) or not await registry.has_moved(began):
                raise
        record.annotations.clear()
        return await self._attempted(request, user, transport)

    async def _attempted(
        self, request: LocalRequest, user: _User, transport: InProcessTransport
    ) -> tuple[RequestedResource, Any]:
        found = self._found(request, user)
        if user.turnstile is None:
            return found, await carry_out(transport, found, request)
        return found, await user.turnstile.carry(request, lambda: carry_out(transport, found, request, user.manager))

    def _found(self, request: LocalRequest, user: _User) -> RequestedResource:
        """What a request asks of.

        Raises:
            StatusError: 404, it is not served here; 405, it knows no such verb.
        """
        found = self._routes.find(request)
        if user.turnstile is not None and not user.turnstile.serves(request, found.version.type):
            raise not_served()
        return found

    def _show(self, request: LocalRequest, found: RequestedResource, answer: Any, record: RequestRecord) -> None:
        """Put the answer to a request on the way."""
        if type(answer) is found.version.type and not (request.verb == "create" and request.subresource):
            number = self._sent.number_of(answer, request.form)
            shown = Shown(number) if number else self._first_shown(answer, request.form, self._stored(found, answer))
            if self._server.recorder.audits:
                record.response_body = shown.body or encode(answer)
                record.created_name = answer.metadata.name
            self._put(ObjectAnswer(request.id, shown), len(shown.body))
        elif answer is None:
            self._put(Ended(request.id))
        elif isinstance(answer, Page):
            self._show_page(request, answer)
        else:
            assert isinstance(answer, KubeStruct)
            plain = plain_answer(request.id, answer)
            self._put(plain, len(plain.body))

    def _show_page(self, request: LocalRequest, page: Page[Any]) -> None:
        objects: list[Shown] = []
        size = 0
        for obj in page.items:
            shown = self._shown(obj, request.form)
            objects.append(shown)
            size += len(shown.body) + _ENVELOPE
            if size >= _PIECE:
                self._put(Listed(request.id, objects), size)
                objects, size = [], 0
        self._put(Listed(request.id, objects, page.resource_version, page.continue_, page.remaining), size)

    def _shown(self, obj: Any, form: int) -> Shown:
        """An object as it goes out: by its number, if it was sent lately."""
        number = self._sent.number_of(obj, form)
        return Shown(number) if number else self._first_shown(obj, form, encode(obj))

    def _first_shown(self, obj: Any, form: int, body: bytes) -> Shown:
        """An object that is not among those that were sent lately."""
        self._sent.add(obj, form)
        return Shown(form, body)

    def _stored(self, found: RequestedResource, obj: Any) -> bytes:
        """An object's JSON: the store's, as long as nothing else has been written in its place."""
        metadata = obj.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        entry = self._server.registry.entry(found.definition.group_resource, key)
        return entry.body(found.version) if entry is not None and entry.object is obj else encode(obj)

    async def _watch_latest(self, request: LocalRequest, user: _User, record: RequestRecord) -> None:
        """Begin a watch when everything is here that other servers acknowledged before."""
        try:
            await self._server.registry.catch_up()
        except StatusError as error:
            del self._watching[request.id]
            self._refuse_watch(request, record, error)
            return
        except asyncio.CancelledError:
            del self._watching[request.id]
            self._server.recorder.end(record, 499)
            if self._retiring is not None:
                self._put(Ended(request.id))
            raise
        del self._watching[request.id]
        self._watch(request, user, record)

    def _refuse_watch(self, request: LocalRequest, record: RequestRecord, error: StatusError) -> None:
        self._put(StatusFailure(request.id, refused(error)))
        self._server.recorder.end(record, error.code)

    def _watch(self, request: LocalRequest, user: _User, record: RequestRecord) -> None:
        try:
            if len(self._watches) + len(self._watching) >= MOST_WATCHES:
                raise failure(429, "TooManyRequests", "too many watches on one connection", StatusDetails())
            found = self._found(request, user)
            if found.definition.conversion is not None:
                self._watching[request.id] = self._loop.create_task(self._converted(request, user, found, record))
                return
            call, start = user.transport.start_watch(found.ref, request.namespace, list_options(request.options))
        except StatusError as error:
            self._refuse_watch(request, record, error)
            return
        self._server.recorder.streams(record)
        watch = self._watches[request.id] = _Watch(request, call, start, record)
        if watch.bookmarks and self._bookmarks is None:
            self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_quiet)
        start.watcher.on_events = lambda: self._events_wait(watch.id)
        self._events_wait(watch.id)

    async def _converted(
        self, request: LocalRequest, user: _User, found: RequestedResource, record: RequestRecord
    ) -> None:
        """A watch whose objects a webhook converts: such events cannot be taken all at once."""
        options, status = list_options(request.options), 200
        try:
            async with user.transport.watch(found.ref, request.namespace, options) as events:
                self._server.recorder.streams(record)
                async for event in events:
                    shown = self._shown(event.object, request.form)
                    self._put(Event(request.id, event.type, shown), len(shown.body))
            self._put(Ended(request.id))
        except StatusError as error:
            status = error.code
            self._put(StatusFailure(request.id, refused(error)))
        finally:
            self._server.recorder.end(record, status)
            del self._watching[request.id]
            if self._retiring is not None:
                self._put(Ended(request.id))

    def _events_wait(self, number: int) -> None:
        self._ready[number] = None
        if self._outgoing is not None:
            self._outgoing.schedule()

    def _take_events(self) -> None:
        """Put the events of all watches that have some on the way."""
        if self._slow is not None:
            return
        ready, self._ready = self._ready, {}
        for number in ready:
            watch = self._watches.get(number)
            if watch is None:
                continue
            version, form = watch.call.version, watch.form
            for seen in watch.taken():
                obj = seen.entry.view(version)
                watch.quiet = False
                sent = self._sent.number_of(obj, form)
                shown = Shown(sent) if sent else self._first_shown(obj, form, seen.entry.body(version))
                self._put(Event(number, seen.type, shown), len(shown.body))
            if watch.start.watcher.closed:
                self._put(Ended(number))
                self._end_watch(watch)

    def _bookmark_quiet(self) -> None:
        """Tell watches that had nothing to show how far they have come."""
        self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_quiet)
        self._take_events()
        if self._slow is not None:
            return
        for watch in self._watches.values():
            if watch.quiet:
                self._mark(watch)
            watch.quiet = True

    def _mark(self, watch: _Watch) -> None:
        """Show a watch that has seen everything a bookmark, if it wants one."""
        if not watch.bookmarks:
            return
        metadata = ObjectMeta(resource_version=str(self._server.registry.revision))
        marked = replace(watch.call.version.type(), metadata=metadata)
        shown = self._first_shown(marked, watch.form, encode(marked))
        self._put(Event(watch.id, EventType.BOOKMARK, shown), len(shown.body))

    def _end_watch(self, watch: _Watch) -> None:
        self._watches.pop(watch.id, None)
        watch.start.watcher.on_events = None
        watch.start.stop()
        self._server.recorder.end(watch.record, 200)

    def _put(self, message: Any, size: int = 0) -> None:
        if self._outgoing is not None:
            self._outgoing.put(message, size + _ENVELOPE)

    def _cut(self) -> None:
        LOG.warning("a connection is closed: its client takes nothing off it")
        self._slow = None
        if self._transport is not None:
            self._transport.abort()

    def _stop_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
