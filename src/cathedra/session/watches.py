"""The watches of one server session.

A watch takes a seat until its first events are sent, as they are as much work as a list. From then on it costs nothing
until its watcher has events; those of all watches are put at the end of a turn of the loop, and a limited number at a
time, so that other connections are served in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from cathedra.api.core.meta_v1 import ObjectMeta, StatusDetails
from cathedra.api.status import StatusError, failure, internal_error
from cathedra.api.struct import replace
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.watching import Seen
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.read import WatchStart
from cathedra.client.transport import EventType
from cathedra.session.answers import AnswerSender
from cathedra.session.protocol import EndMessage, EventMessage, RequestMessage
from cathedra.session.requests import SessionContext, list_options, request_path

LOG: Final = logging.getLogger(__name__)
MOST_WATCHES: Final = 65_536
"""Limit of a connection."""
MOST_WATCHES_OF_USER: Final = 4096
"""Limit of a network user over all of its sessions: every write is compared with the selectors of all watches."""
BOOKMARK_SECONDS: Final = 60.0
"""Time without events after which a watch gets a bookmark."""
_MOST_SHOWN: Final = 1024
"""Events that are put in one turn of the loop."""


class SessionWatch:
    """A watch that has begun."""

    __slots__ = ("_taken", "bookmarks", "call", "form", "id", "is_beginning", "marks", "record", "start")

    def __init__(self, request: RequestMessage, call: Call, start: WatchStart, record: RequestRecord) -> None:
        self.id = request.id
        self.form = request.form
        self.call = call
        self.start = start
        self.record = record
        self.bookmarks = request.options.bookmarks
        self.marks = False
        """True if a bookmark has to follow the events that wait."""
        self.is_beginning = True
        """True until the first events are all taken."""
        self._taken = start.initial_events()

    def next(self) -> Seen | None:
        """Return the next event; None if there is none now. The objects that exist already come first."""
        seen = next(self._taken, None)
        if seen is None:
            self.is_beginning = False
            self._taken = iter(self.start.watcher.taken())
            seen = next(self._taken, None)
        return seen


class Watches:
    """All watches of a session: those under way, those that wait for a seat, and those that a webhook converts."""

    def __init__(self, server: SessionContext, sender: AnswerSender, has_room: Callable[[], None]) -> None:
        """``has_room`` is called when the first events of a watch are sent: then more requests may begin."""
        self._server = server
        self._requests = server.requests
        self._pipeline = server.requests.pipeline
        self._sender = sender
        self._has_room = has_room
        self._loop = asyncio.get_running_loop()
        self._retiring = False
        self.beginning: set[int] = set()
        """Watches whose first events are not all sent, also those that wait for a seat."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """Of watches that have not begun, and of those whose objects a webhook converts."""
        self._watches: dict[int, SessionWatch] = {}
        self._ready: dict[int, None] = {}
        """Watches that have events, in the order in which they got them."""
        self._bookmarks: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._watches) + len(self._tasks)

    def __contains__(self, number: object) -> bool:
        return number in self._watches or number in self._tasks

    def begin(self, request: RequestMessage, record: RequestRecord) -> None:
        """Begin a watch, now or when it has a seat."""
        has_seat = not self._server.limited or self._pipeline.take_seat(record)
        # The usual case needs no task: on the only server of a store the watch can begin at once.
        if has_seat and not self._requests.context.registry.shared:
            self._begin_now(request, record)
            return
        self._tasks[request.id] = self._loop.create_task(self._begin_later(request, record, has_seat=has_seat))
        self.beginning.add(request.id)

    def cancel(self, number: int) -> None:
        """End a watch that the client has cancelled."""
        if (watch := self._watches.get(number)) is not None:
            self._end(watch)
        elif (task := self._tasks.get(number)) is not None:
            # Not cancelled here: a task that has not run yet would end without its ``finally``, and leak its seat.
            self._loop.call_soon(task.cancel)

    def retire(self) -> None:
        """End all watches. Each gets a last bookmark, so that the client's next watch continues from there."""
        self._retiring = True
        self.put_events()
        # A copy, since `_end` removes entries.
        for watch in tuple(self._watches.values()):
            if watch.id not in self._ready:
                self._put_bookmark(watch)
            self._sender.put(EndMessage(watch.id))
            self._end(watch)
        for task in self._tasks.values():
            self._loop.call_soon(task.cancel)

    def close(self) -> None:
        """End all watches: the connection is lost."""
        if self._bookmarks is not None:
            self._bookmarks.cancel()
        for task in self._tasks.values():
            self._loop.call_soon(task.cancel)
        for watch in tuple(self._watches.values()):
            self._end(watch)
        self._ready.clear()

    def put_events(self) -> None:
        """Put events of all watches that have some, up to the limit of a turn."""
        ready, self._ready = self._ready, {}
        left = _MOST_SHOWN
        for number in ready:
            watch = self._watches.get(number)
            if watch is None:
                continue
            # A watch that is skipped stays in the order of arrival, so that one busy watch does not keep the others
            # waiting.
            if left > 0 and not self._sender.is_slow:
                left = self._put_events_of(watch, left)
            if left <= 0 or self._sender.is_slow:
                self._ready[number] = None
        if self._ready and not self._sender.is_slow:
            # In the next turn: a schedule during the flush that calls this would have no effect.
            self._loop.call_soon(self._sender.schedule)

    def resume(self) -> None:
        """Put the events that had to wait because the client was slow."""
        if self._ready:
            self._sender.schedule()

    async def _begin_later(self, request: RequestMessage, record: RequestRecord, *, has_seat: bool) -> None:
        """Begin a watch once it has a seat, and this server has what others on the same store have acknowledged."""
        try:
            if not has_seat:
                await self._pipeline.wait_for_seat(record)
            await self._requests.context.registry.catch_up()
        except StatusError as error:
            self._forget(request.id, record)
            self._refuse(request, record, error)
            return
        except asyncio.CancelledError:
            self._forget(request.id, record)
            record.status = CLIENT_GONE
            self._pipeline.end(record)
            if self._retiring:
                self._sender.put(EndMessage(request.id))
            raise
        # From here on no await follows: a cancellation can no longer leave the watch in neither table.
        del self._tasks[request.id]
        self._begin_now(request, record)

    def _begin_now(self, request: RequestMessage, record: RequestRecord) -> None:
        try:
            call, start = self._start(request, record)
        except StatusError as error:
            self._has_begun(request.id, record)
            self._refuse(request, record, error)
            return
        except Exception as error:
            # The last resort: one watch must not end the connection, and all others with it.
            LOG.exception("watch %s failed", request_path(request))
            self._has_begun(request.id, record)
            self._refuse(request, record, internal_error(f"{type(error).__name__}: {error}"))
            return
        self._pipeline.started(record, 200)
        if call.definition.conversion is not None:
            self._tasks[request.id] = self._loop.create_task(self._run_converted(request, call, start, record))
            return
        watch = self._watches[request.id] = SessionWatch(request, call, start, record)
        self.beginning.add(watch.id)
        if watch.bookmarks and self._bookmarks is None:
            self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._put_bookmarks)
        start.watcher.on_events = lambda: self._has_events(watch.id)
        self._has_events(watch.id)

    def _start(self, request: RequestMessage, record: RequestRecord) -> tuple[Call, WatchStart]:
        if len(self) >= MOST_WATCHES:
            raise failure(429, "TooManyRequests", "too many watches on one connection", StatusDetails())
        # Over all connections, because a user may open any number of them.
        if sum(one.watches for one in self._server.siblings) >= MOST_WATCHES_OF_USER:
            raise failure(429, "TooManyRequests", "too many watches of one user", StatusDetails())
        route = self._requests.find(request, record.info, limited=self._server.limited)
        self._pipeline.authorize(record)
        call = self._requests.operations.begin(record, route)
        return call, self._requests.operations.watch(call, list_options(request.options))

    async def _run_converted(
        self, request: RequestMessage, call: Call, start: WatchStart, record: RequestRecord
    ) -> None:
        """Send the events of a watch whose objects a webhook converts: it has to wait for the webhook at each event."""
        try:
            self._has_begun(request.id, record)
            async for batch in self._requests.operations.events(call, start):
                for event in batch:
                    await self._sender.until_taken()
                    payload = self._sender.made(event.object, request.form)
                    self._sender.put(EventMessage(request.id, event.type, payload), len(payload.body))
            self._sender.put(EndMessage(request.id))
        except StatusError as error:
            self._sender.refuse(request.id, record, error)
        finally:
            start.stop()
            self._pipeline.end(record)
            self._forget(request.id, record)
            if self._retiring:
                self._sender.put(EndMessage(request.id))

    def _has_events(self, number: int) -> None:
        self._ready[number] = None
        self._sender.schedule()

    def _put_events_of(self, watch: SessionWatch, left: int) -> int:
        """Put up to ``left`` events of a watch, as long as the client takes them.

        Return how many may follow in this turn; 0 if this watch may have more.
        """
        version, form, sender = watch.call.version, watch.form, self._sender
        while (seen := watch.next()) is not None:
            payload = sender.stored(seen.entry, version, form)
            sender.put(EventMessage(watch.id, seen.type, payload), len(payload.body))
            left -= 1
            if left <= 0 or sender.is_slow:
                return 0
        # Only when all first events are put: until then the watch holds the seat that a list would hold.
        if watch.id in self.beginning and not watch.is_beginning:
            self._has_begun(watch.id, watch.record)
        if watch.marks:
            self._put_bookmark(watch)
        if watch.start.watcher.closed:
            sender.put(EndMessage(watch.id))
            self._end(watch)
        return left

    def _put_bookmarks(self) -> None:
        """Put a bookmark for each watch, now or behind the events that wait."""
        self._bookmarks = self._loop.call_later(BOOKMARK_SECONDS, self._put_bookmarks)
        # Events first: a bookmark must not name a revision whose events are still to be sent.
        self.put_events()
        for watch in self._watches.values():
            watch.marks = watch.bookmarks
            # A watch in ``_ready`` may have unsent events that are older than the bookmark.
            if watch.marks and watch.id not in self._ready and not self._sender.is_slow:
                self._put_bookmark(watch)

    def _put_bookmark(self, watch: SessionWatch) -> None:
        watch.marks = False
        metadata = ObjectMeta(resource_version=str(self._requests.context.registry.revision))
        payload = self._sender.made(replace(watch.call.version.type(), metadata=metadata), watch.form)
        self._sender.put(EventMessage(watch.id, EventType.BOOKMARK, payload), len(payload.body))

    def _refuse(self, request: RequestMessage, record: RequestRecord, error: StatusError) -> None:
        self._sender.refuse(request.id, record, error)
        self._pipeline.end(record)

    def _has_begun(self, number: int, record: RequestRecord) -> None:
        """Release the seat: the first events of a watch are all sent, or it will have none."""
        self.beginning.discard(number)
        record.seat.release()
        self._has_room()

    def _forget(self, number: int, record: RequestRecord) -> None:
        """Remove a watch that has a task."""
        del self._tasks[number]
        self._has_begun(number, record)

    def _end(self, watch: SessionWatch) -> None:
        self._watches.pop(watch.id, None)
        self._has_begun(watch.id, watch.record)
        # First the callback: stopping wakes the watcher, which must not schedule a watch that is gone.
        watch.start.watcher.on_events = None
        watch.start.stop()
        self._pipeline.end(watch.record)
