"""One connection: its users, the requests under way, its watches, and what goes out in a turn of the loop.

It may be that of a process of the same cluster, over a unix socket, or that of one user over the network, whose
requests pay for seats and have deadlines. Nothing more is worked on for a client that does not take its answers.

A frame may hold thousands of requests, each of which may list thousands of objects. So requests are begun a few at a
time, and other connections are served in between; lists and the first events of watches are encoded piece by piece, as
the client takes them. Until all that has arrived is begun nothing more is read.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from cathedra.api.core.meta_v1 import ObjectMeta, StatusDetails
from cathedra.api.status import StatusError, failure, internal_error, unauthorized
from cathedra.api.struct import KubeStruct, encode, replace
from cathedra.apiserver.http.consistency import may_be_outdated
from cathedra.apiserver.http.options import manager_named
from cathedra.apiserver.local.backlog import Backlog, cost
from cathedra.apiserver.local.limits import Turnstile
from cathedra.apiserver.local.records import request_path
from cathedra.apiserver.local.requests import (
    RequestedResource,
    Routes,
    call_of,
    carry_out,
    not_served,
    plain_answer,
    refused,
)
from cathedra.apiserver.local.sessionstate import LocalServer, SessionUser, SessionWatch
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.traffic.audit import shortened_agent
from cathedra.apiserver.traffic.levels import Seat
from cathedra.apiserver.traffic.record import RequestRecord
from cathedra.apiserver.transport import InProcessTransport
from cathedra.asgi.upgrade import Connections
from cathedra.client.local.frames import FrameError
from cathedra.client.local.messages import (
    PROTOCOL,
    Again,
    Attach,
    Cancel,
    Ended,
    Event,
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

__all__ = ["MOST_REQUESTS", "Session"]

LOG: Final = logging.getLogger(__name__)
MOST_REQUESTS: Final = 4096
"""Requests of a connection that are worked on at once; more are left in the socket."""
MOST_UNDER_WAY: Final = 16 * 1024 * 1024
"""Bytes of bodies of such requests."""
MOST_LISTS: Final = 64
"""Lists, and watches whose first events are not sent, that are under way at once: each holds all objects of a table."""
_MOST_SHOWN: Final = 1024
"""Events that are put on the way in one turn."""
MOST_WATCHES: Final = 65_536
MOST_WATCHES_OF_USER: Final = 4096
"""Of a user of the network in all of its sessions: each may have a selector that every write is compared with."""
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


class Session(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, server: LocalServer, sessions: Connections) -> None:
        self._server = server
        self._sessions = sessions
        self._routes = Routes(server.catalog)
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._backlog = Backlog()
        self._sent = SentObjects()
        self._users: dict[int, SessionUser] = {}
        self._turn: asyncio.Handle | None = None
        """In which more of the backlog will be begun."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._under_way = 0
        """Bytes of bodies."""
        self._lists = 0
        """Lists among the tasks."""
        self._beginning: set[int] = set()
        """Watches whose first events are not sent yet, also those that wait for a seat."""
        self._watching: dict[int, asyncio.Task[None]] = {}
        """Watches that have not begun yet, and those whose objects a webhook converts."""
        self._watches: dict[int, SessionWatch] = {}
        self._ready: dict[int, None] = {}
        self._outgoing: Outgoing | None = None
        self._reading = True
        self._slow: asyncio.TimerHandle | None = None
        self._taken = asyncio.Event()
        """That the client is not behind."""
        self._taken.set()
        self._retiring: asyncio.TimerHandle | None = None
        self._bookmarks: asyncio.TimerHandle | None = None

    @property
    def watches(self) -> int:
        """Return the number of watches that are under way."""
        return len(self._watches) + len(self._watching)

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
        for timer in (self._bookmarks, self._retiring, self._turn):
            if timer is not None:
                timer.cancel()
        self._turn = None
        self._backlog.clear()
        for task in (*self._tasks.values(), *self._watching.values()):
            self._loop.call_soon(task.cancel)  # one that has not begun yet would not end as one that has
        for watch in tuple(self._watches.values()):
            self._end_watch(watch)
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        self._transport = None
        # Tasks that are still under way hold the session; none of this is theirs.
        self._users.clear()
        self._sent = SentObjects()
        self._ready.clear()

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
        self._backlog.add(data)
        if self._turn is None:
            self._begin_some()

    def _begin_some(self) -> None:
        """Begin some of what has arrived, and the rest in later turns of the loop."""
        self._turn = None
        if self._transport is None or self._transport.is_closing():
            return
        left = self._backlog.allowance
        try:
            while left > 0 and not self._is_full() and (message := self._backlog.next()) is not None:
                self._receive(message)
                left -= cost(message)
            if left <= 0:
                self._backlog.end_turn(self._loop.time())
                self._turn = self._loop.call_soon(self._begin_more)
        except FrameError as error:
            LOG.warning("a connection is closed: %s", error)
            self._backlog.clear()
            self._transport.close()
        self._read_or_wait()

    def _begin_more(self) -> None:
        """Go on in the next turn of the loop, with fewer requests if those of the last one took long."""
        self._backlog.begin_turn(self._loop.time())
        self._begin_some()

    def _is_full(self) -> bool:
        """Return True if nothing more may be begun: as much is under way as may be, or the client takes no answers."""
        return (
            self._slow is not None
            or len(self._tasks) >= MOST_REQUESTS
            or self._under_way >= MOST_UNDER_WAY
            or self._lists + len(self._beginning) >= MOST_LISTS
        )

    def pause_writing(self) -> None:
        """The client is behind: hold up its requests and watches, but not for long."""
        if self._slow is None:
            self._slow = self._loop.call_later(SLOW_SECONDS, self._cut)
        self._taken.clear()
        self._read_or_wait()

    def resume_writing(self) -> None:
        """Go on."""
        self._stop_timer()
        self._taken.set()
        self._go_on()
        if self._outgoing is not None and self._ready:
            self._outgoing.schedule()

    def _receive(self, message: Attach | LocalRequest | Cancel) -> None:
        if type(message) is LocalRequest:
            self._begin(message)
        elif type(message) is Cancel:
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
        agent = shortened_agent(message.agent)
        self._users[message.user] = SessionUser(transport.user, agent, transport, turnstile, manager)

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
            seat = Seat() if user.turnstile is None else user.turnstile.take_seat(request)
            if seat is None or self._server.registry.shared:
                later = self._watch_later(request, user, record, seat)
                self._watching[request.id] = self._loop.create_task(later)
                self._beginning.add(request.id)
            else:
                self._watch(request, user, record, seat)
            return
        task = self._loop.create_task(self._answer(request, user, record))
        self._tasks[request.id] = task
        self._under_way += len(request.body)
        self._lists += request.verb == "list"

    def _cancel(self, number: int) -> None:
        if (watch := self._watches.get(number)) is not None:
            self._end_watch(watch)
        task = self._tasks.get(number) or self._watching.get(number)
        if task is not None:
            self._loop.call_soon(task.cancel)  # one that has not begun yet would not end as one that has

    def _go_on(self) -> None:
        """Begin more of what has arrived, if there is room again."""
        if not self._reading and self._turn is None and not self._is_full():
            self._turn = self._loop.call_soon(self._begin_some)

    def _read_or_wait(self) -> None:
        """Read on, unless more has arrived than is begun, or nothing more may be."""
        if self._transport is None or self._transport.is_closing():
            return
        behind = self._turn is not None or self._is_full()
        if self._reading and behind:
            self._reading = False
            self._transport.pause_reading()
        elif not self._reading and not behind:
            self._reading = True
            self._transport.resume_reading()

    async def _answer(self, request: LocalRequest, user: SessionUser, record: RequestRecord) -> None:
        status, recorder = 499, self._server.recorder
        transport = user.transport.annotating(record.annotations) if recorder.audits else user.transport
        try:
            while self._slow is not None:
                await self._taken.wait()
            found, answer = await self._carried_out(request, user, transport, record)
            status = 201 if request.verb == "create" else 200
            if isinstance(answer, Page):
                await self._show_page(request, answer)
            else:
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
            self._lists -= request.verb == "list"
            self._go_on()

    async def _carried_out(
        self, request: LocalRequest, user: SessionUser, transport: InProcessTransport, record: RequestRecord
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
        self, request: LocalRequest, user: SessionUser, transport: InProcessTransport
    ) -> tuple[RequestedResource, Any]:
        found = self._found(request, user)
        if user.turnstile is None:
            return found, await carry_out(transport, found, request)
        return found, await user.turnstile.carry(request, lambda: carry_out(transport, found, request, user.manager))

    def _found(self, request: LocalRequest, user: SessionUser) -> RequestedResource:
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
        else:
            assert isinstance(answer, KubeStruct)
            plain = plain_answer(request.id, answer)
            self._put(plain, len(plain.body))

    async def _show_page(self, request: LocalRequest, page: Page[Any]) -> None:
        """Put a list on the way, piece by piece: the next one is encoded once the client has taken most of the last."""
        objects: list[Shown] = []
        size = 0
        for obj in page.items:
            shown = self._shown(obj, request.form)
            objects.append(shown)
            size += len(shown.body) + _ENVELOPE
            if size >= _PIECE:
                self._put(Listed(request.id, objects), size)
                objects, size = [], 0
                await asyncio.sleep(0)
                while self._slow is not None:
                    await self._taken.wait()
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

    async def _watch_later(
        self, request: LocalRequest, user: SessionUser, record: RequestRecord, seat: Seat | None
    ) -> None:
        """Begin a watch once it has a seat, and everything is here that other servers acknowledged before."""
        try:
            if seat is None and user.turnstile is not None:
                seat = await user.turnstile.wait_for_seat(request)
            if self._server.registry.shared:
                await self._server.registry.catch_up()
        except StatusError as error:
            self._leave_watching(request.id, seat)
            self._refuse_watch(request, record, error)
            return
        except asyncio.CancelledError:
            self._leave_watching(request.id, seat)
            self._server.recorder.end(record, 499)
            if self._retiring is not None:
                self._put(Ended(request.id))
            raise
        del self._watching[request.id]
        self._watch(request, user, record, seat or Seat())

    def _leave_watching(self, number: int, seat: Seat | None) -> None:
        """A watch has not begun, and will not."""
        del self._watching[number]
        self._has_begun(number, seat or Seat())

    def _refuse_watch(self, request: LocalRequest, record: RequestRecord, error: StatusError) -> None:
        self._put(StatusFailure(request.id, refused(error)))
        self._server.recorder.end(record, error.code)

    def _watch(self, request: LocalRequest, user: SessionUser, record: RequestRecord, seat: Seat) -> None:
        try:
            if self.watches >= MOST_WATCHES:
                raise failure(429, "TooManyRequests", "too many watches on one connection", StatusDetails())
            if sum(one.watches for one in self._server.siblings) >= MOST_WATCHES_OF_USER:
                raise failure(429, "TooManyRequests", "too many watches of one user", StatusDetails())
            found = self._found(request, user)
            if found.definition.conversion is not None:
                self._watching[request.id] = self._loop.create_task(self._converted(request, user, found, record, seat))
                return
            call, start = user.transport.start_watch(call_of(found, request))
        except StatusError as error:
            self._has_begun(request.id, seat)
            self._refuse_watch(request, record, error)
            return
        except Exception as error:
            # The last resort: one watch must not end the connection, and all others with it.
            LOG.exception("watch %s failed", request_path(request))
            self._has_begun(request.id, seat)
            self._refuse_watch(request, record, internal_error(f"{type(error).__name__}: {error}"))
            return
        self._server.recorder.streams(record)
        watch = self._watches[request.id] = SessionWatch(request, call, start, record, seat)
        self._beginning.add(watch.id)
        if watch.bookmarks and self._bookmarks is None:
            self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_quiet)
        start.watcher.on_events = lambda: self._events_wait(watch.id)
        self._events_wait(watch.id)

    async def _converted(
        self, request: LocalRequest, user: SessionUser, found: RequestedResource, record: RequestRecord, seat: Seat
    ) -> None:
        """A watch whose objects a webhook converts: such events cannot be taken all at once."""
        status = 200
        try:
            async with user.transport.watch(call_of(found, request)) as events:
                self._server.recorder.streams(record)
                self._has_begun(request.id, seat)
                async for event in events:
                    while self._slow is not None:
                        await self._taken.wait()
                    shown = self._shown(event.object, request.form)
                    self._put(Event(request.id, event.type, shown), len(shown.body))
            self._put(Ended(request.id))
        except StatusError as error:
            status = error.code
            self._put(StatusFailure(request.id, refused(error)))
        finally:
            self._server.recorder.end(record, status)
            self._leave_watching(request.id, seat)
            if self._retiring is not None:
                self._put(Ended(request.id))

    def _events_wait(self, number: int) -> None:
        self._ready[number] = None
        if self._outgoing is not None:
            self._outgoing.schedule()

    def _take_events(self) -> None:
        """Put the events of all watches that have some on the way."""
        ready, self._ready = self._ready, {}
        left = _MOST_SHOWN
        for number in ready:
            watch = self._watches.get(number)
            if watch is None:
                continue
            if left > 0 and self._slow is None:
                left = self._show_events(watch, left)
            if left <= 0 or self._slow is not None:
                self._ready[number] = None
        if self._ready and self._slow is None:
            self._loop.call_soon(self._events_go_on)

    def _events_go_on(self) -> None:
        if self._outgoing is not None:
            self._outgoing.schedule()

    def _show_events(self, watch: SessionWatch, left: int) -> int:
        """Put events of a watch on the way, at most ``left`` of them, as long as the client takes them. Return how many
        may follow in this turn; 0 if the watch may have more."""
        version, form = watch.call.version, watch.form
        while (seen := watch.next()) is not None:
            obj = seen.entry.view(version)
            watch.quiet = False
            sent = self._sent.number_of(obj, form)
            shown = Shown(sent) if sent else self._first_shown(obj, form, seen.entry.body(version))
            self._put(Event(watch.id, seen.type, shown), len(shown.body))
            left -= 1
            if left <= 0 or self._slow is not None:
                return 0
        if watch.id in self._beginning and not watch.is_beginning:
            self._has_begun(watch.id, watch.seat)
        if watch.start.watcher.closed:
            self._put(Ended(watch.id))
            self._end_watch(watch)
        return left

    def _has_begun(self, number: int, seat: Seat) -> None:
        """The first events of a watch are all sent, or it is refused or over: another one may begin."""
        self._beginning.discard(number)
        seat.release()
        self._go_on()

    def _bookmark_quiet(self) -> None:
        """Tell watches that had nothing to show how far they have come."""
        self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_quiet)
        self._take_events()
        if self._slow is not None:
            return
        for watch in self._watches.values():
            if watch.quiet and watch.id not in self._ready:
                self._mark(watch)
            watch.quiet = True

    def _mark(self, watch: SessionWatch) -> None:
        """Show a watch that has seen everything a bookmark, if it wants one."""
        if not watch.bookmarks:
            return
        metadata = ObjectMeta(resource_version=str(self._server.registry.revision))
        marked = replace(watch.call.version.type(), metadata=metadata)
        shown = self._first_shown(marked, watch.form, encode(marked))
        self._put(Event(watch.id, EventType.BOOKMARK, shown), len(shown.body))

    def _end_watch(self, watch: SessionWatch) -> None:
        self._watches.pop(watch.id, None)
        self._has_begun(watch.id, watch.seat)
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
