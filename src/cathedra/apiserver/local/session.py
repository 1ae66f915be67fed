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
from cathedra.api.nulltimes import as_shown
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError, failure, internal_error, unauthorized
from cathedra.api.struct import KubeStruct, encode, replace
from cathedra.apiserver.authentication.authenticator import authenticated
from cathedra.apiserver.authorization.authorizer import always_allows
from cathedra.apiserver.http.answers.negotiation import JSON_FORM
from cathedra.apiserver.http.answers.render import render_list
from cathedra.apiserver.local.backlog import Backlog, cost
from cathedra.apiserver.local.requests import list_options, plain_answer, record_of, request_path, with_kind
from cathedra.apiserver.local.sessionstate import LocalServer, SessionUser, SessionWatch
from cathedra.apiserver.pipeline.audit import shortened_agent
from cathedra.apiserver.pipeline.operations import Answer, deletion_status, manager_named
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.request import Call
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.read import Listing, WatchStart
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
from cathedra.client.transport import EventType

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
        self._pipeline = server.pipeline
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
        user = authenticated(info)
        self._users[message.user] = SessionUser(
            user,
            shortened_agent(message.agent),
            trusted=always_allows(self._server.context.authorizer, user),
            manager=manager_named(message.agent) if self._server.limited else "",
        )

    def _begin(self, request: LocalRequest) -> None:
        if self._retiring is not None:
            self._put(Again(request.id))
            return
        user = self._users.get(request.user)
        if user is None:
            self._put(StatusFailure(request.id, encode(unauthorized().status)))
            return
        if request.id in self._tasks or request.id in self._watches or request.id in self._watching:
            raise FrameError(f"a second request {request.id}")
        record = record_of(self._pipeline, request, user.info, agent=user.agent)
        record.trusted = user.trusted
        record.source = self._server.source
        self._pipeline.begin(record)
        if request.verb == "watch":
            has_seat = not self._server.limited or self._pipeline.take_seat(record)
            if not has_seat or self._server.context.registry.shared:
                later = self._watch_later(request, record, has_seat=has_seat)
                self._watching[request.id] = self._loop.create_task(later)
                self._beginning.add(request.id)
            else:
                self._watch(request, record)
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
        record.status, pipeline = CLIENT_GONE, self._pipeline
        try:
            while self._slow is not None:
                await self._taken.wait()
            requests = self._server.requests
            found = requests.find(request, record.info, limited=self._server.limited)
            run = pipeline.run if self._server.limited else pipeline.authorized
            answer = await run(record, lambda: requests.carry_out(request, found, record, user.manager))
            call = answer.call
            if pipeline.wants_response(record):
                record.response_body = self._logged(call, answer)
            if answer.listing is None:
                self._show(request, call, answer)
            elif call.verb == "list":
                await self._show_page(request, call, answer.listing)
            else:
                self._put(Ended(request.id))
            record.status = answer.status
            if answer.entry is not None and call.verb == "create":
                record.created_name = answer.entry.object.metadata.name
        except StatusError as error:
            self._refuse(request, record, error)
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            self._refuse(request, record, internal_error(str(error)))
        except Exception as error:
            # The last resort, as over HTTP: whatever failed, the client gets an answer.
            LOG.exception("%s %s failed", request.verb, request_path(request))
            self._refuse(request, record, internal_error(f"{type(error).__name__}: {error}"))
        finally:
            pipeline.end(record)
            del self._tasks[request.id]
            self._under_way -= len(request.body)
            self._lists -= request.verb == "list"
            self._go_on()

    def _refuse(self, request: LocalRequest, record: RequestRecord, error: StatusError) -> None:
        record.status = error.code
        status = encode(error.status)
        if self._pipeline.wants_response(record):
            record.response_body = encode(error.to_json())
        self._put(StatusFailure(request.id, status))

    def _logged(self, call: Call, answer: Answer) -> bytes:
        """Return what the audit event shows of an answer: the body that it would have over HTTP."""
        if answer.listing is not None:
            shown = render_list(call, answer.listing, JSON_FORM)
            return shown.body + shown.tail
        if answer.entry is None:
            plain = plain_answer(0, as_shown(answer.value, self._server.context.gates))
            return with_kind(GroupVersionKind.parse(plain.api_version, plain.kind), plain.body)
        if answer.gone and not call.definition.strategy.returns_deleted_object:
            return encode(deletion_status(call, answer.entry))
        return with_kind(call.gvk, answer.entry.shown(call.version))

    def _show(self, request: LocalRequest, call: Call, answer: Answer) -> None:
        """Put the answer to a request on the way."""
        entry = answer.entry
        if entry is None:
            assert isinstance(answer.value, KubeStruct)
            plain = plain_answer(request.id, answer.value)
            self._put(plain, len(plain.body))
            return
        obj = entry.view(call.version)
        number = self._sent.number_of(obj, request.form)
        shown = Shown(number) if number else self._first_shown(obj, request.form, entry.body(call.version))
        self._put(ObjectAnswer(request.id, shown), len(shown.body))

    async def _show_page(self, request: LocalRequest, call: Call, listing: Listing) -> None:
        """Put a list on the way, piece by piece: the next one is encoded once the client has taken most of the last."""
        objects: list[Shown] = []
        size, version = 0, call.version
        for entry in listing.entries:
            shown = self._shown(entry.view(version), request.form)
            objects.append(shown)
            size += len(shown.body) + _ENVELOPE
            if size >= _PIECE:
                self._put(Listed(request.id, objects), size)
                objects, size = [], 0
                await asyncio.sleep(0)
                while self._slow is not None:
                    await self._taken.wait()
        self._put(Listed(request.id, objects, str(listing.revision), listing.continue_, listing.remaining), size)

    def _shown(self, obj: Any, form: int) -> Shown:
        """An object as it goes out: by its number, if it was sent lately."""
        number = self._sent.number_of(obj, form)
        return Shown(number) if number else self._first_shown(obj, form, encode(obj))

    def _first_shown(self, obj: Any, form: int, body: bytes) -> Shown:
        """An object that is not among those that were sent lately."""
        self._sent.add(obj, form)
        return Shown(form, body)

    async def _watch_later(self, request: LocalRequest, record: RequestRecord, *, has_seat: bool) -> None:
        """Begin a watch once it has a seat, and everything is here that other servers acknowledged before."""
        registry = self._server.context.registry
        try:
            if not has_seat:
                await self._pipeline.wait_for_seat(record)
            if registry.shared:
                await registry.catch_up()
        except StatusError as error:
            self._leave_watching(request.id, record)
            self._refuse_watch(request, record, error)
            return
        except asyncio.CancelledError:
            self._leave_watching(request.id, record)
            record.status = CLIENT_GONE
            self._pipeline.end(record)
            if self._retiring is not None:
                self._put(Ended(request.id))
            raise
        del self._watching[request.id]
        self._watch(request, record)

    def _leave_watching(self, number: int, record: RequestRecord) -> None:
        """A watch has not begun, and will not."""
        del self._watching[number]
        self._has_begun(number, record)

    def _refuse_watch(self, request: LocalRequest, record: RequestRecord, error: StatusError) -> None:
        self._refuse(request, record, error)
        self._pipeline.end(record)

    def _watch(self, request: LocalRequest, record: RequestRecord) -> None:
        try:
            if self.watches >= MOST_WATCHES:
                raise failure(429, "TooManyRequests", "too many watches on one connection", StatusDetails())
            if sum(one.watches for one in self._server.siblings) >= MOST_WATCHES_OF_USER:
                raise failure(429, "TooManyRequests", "too many watches of one user", StatusDetails())
            found = self._server.requests.find(request, record.info, limited=self._server.limited)
            self._pipeline.authorize(record)
            call = found.begin(record)
            start = self._server.operations.watch(call, list_options(request.options))
        except StatusError as error:
            self._has_begun(request.id, record)
            self._refuse_watch(request, record, error)
            return
        except Exception as error:
            # The last resort: one watch must not end the connection, and all others with it.
            LOG.exception("watch %s failed", request_path(request))
            self._has_begun(request.id, record)
            self._refuse_watch(request, record, internal_error(f"{type(error).__name__}: {error}"))
            return
        self._pipeline.started(record, 200)
        if call.definition.conversion is not None:
            self._watching[request.id] = self._loop.create_task(self._converted(request, call, start, record))
            return
        watch = self._watches[request.id] = SessionWatch(request, call, start, record)
        self._beginning.add(watch.id)
        if watch.bookmarks and self._bookmarks is None:
            self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_quiet)
        start.watcher.on_events = lambda: self._events_wait(watch.id)
        self._events_wait(watch.id)

    async def _converted(self, request: LocalRequest, call: Call, start: WatchStart, record: RequestRecord) -> None:
        """Show a watch whose objects a webhook converts: such events cannot be taken all at once."""
        try:
            self._has_begun(request.id, record)
            async for change, obj in self._server.operations.events(call, start):
                while self._slow is not None:
                    await self._taken.wait()
                shown = self._shown(obj, request.form)
                self._put(Event(request.id, change, shown), len(shown.body))
            self._put(Ended(request.id))
        except StatusError as error:
            self._refuse(request, record, error)
        finally:
            start.stop()
            self._pipeline.end(record)
            self._leave_watching(request.id, record)
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
            self._has_begun(watch.id, watch.record)
        if watch.start.watcher.closed:
            self._put(Ended(watch.id))
            self._end_watch(watch)
        return left

    def _has_begun(self, number: int, record: RequestRecord) -> None:
        """The first events of a watch are all sent, or it is refused or over: another one may begin."""
        self._beginning.discard(number)
        record.seat.release()
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
        metadata = ObjectMeta(resource_version=str(self._server.context.registry.revision))
        marked = replace(watch.call.version.type(), metadata=metadata)
        shown = self._first_shown(marked, watch.form, encode(marked))
        self._put(Event(watch.id, EventType.BOOKMARK, shown), len(shown.body))

    def _end_watch(self, watch: SessionWatch) -> None:
        self._watches.pop(watch.id, None)
        self._has_begun(watch.id, watch.record)
        watch.start.watcher.on_events = None
        watch.start.stop()
        self._pipeline.end(watch.record)

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
