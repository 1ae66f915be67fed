"""Events pushed to watches without a task for each: one pass over all that wait, and shared bytes for watches of the
same selection and form.

A task for each watch that wakes with each event costs more than all the rest of a delivery, and takes that time from
the writes that the watchers wait for. A watch whose connection takes bytes directly therefore has no task. When
events are queued for it, it is entered for the next round. In a round every watch that is due gets all that waits
for it, joined and framed once for all watches with the same selection and form. What a client does not take stays in
the bounded queue of its watcher. A client that takes nothing for long is disconnected.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable
from typing import Final

from cathedra.apiserver.http.request import ClientGone
from cathedra.apiserver.registry.watching import Seen, Watcher
from cathedra.asgi.direct import DirectAnswer, framed

BOOKMARK_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 60.0
"""Seconds for which a client may leave events in its connection; then it is disconnected."""
FRAME_BYTES: Final = 4 * 1024 * 1024
"""Bytes of objects whose events are joined in one frame."""
PIECE: Final = 64 * 1024
"""Bytes of a frame that are written at once."""
PIECES: Final = 16
"""Limit of pieces that a watch sends in one turn of the loop."""
LONGEST_PAUSE: Final = 0.02
ROUND_TURNS: Final = 10
"""Limit of turns of the loop for one round. With one turn for each watch an event would take as many turns as there
are watches, each with the requests that have arrived.
"""

TURN_SECONDS: Final = 0.01
"""Seconds after which no further watch is sent its piece in a turn."""

Frames = dict[tuple[Hashable, ...], bytes]
"""The frames of one round, by form and events."""


class WatchBroadcaster:
    """The watches of one server that have events to send.

    A round begins with a pass over the queues of all watches that are due. Then each watch is sent its piece, a few
    of them in a turn of the loop. Between two turns requests are read and answered, so that clients, other processes
    and the store have work meanwhile. Between two rounds it pauses for as long as the last round worked, at most 20
    ms, and events gather. A first event after a quiet time is sent in the turn after its commit."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """``monotonic`` returns the time in seconds."""
        self._monotonic = monotonic
        self._due: dict[BroadcastWatch, None] = {}
        self._sending: list[BroadcastWatch] = []
        """The watches that are still to be sent a piece of this round, the last one first."""
        self._at_once = 1
        """The number of watches that are sent theirs in one turn."""
        self._turn: asyncio.Handle | None = None
        self._worked = 0.0
        """Seconds of work in this round."""
        self._rested = 0.0
        """The time before which no round begins."""

    def enter(self, watch: BroadcastWatch) -> None:
        """Enter a watch for the next round."""
        # A dictionary keeps the order of arrival, and entering a watch twice has no effect.
        self._due[watch] = None
        if self._turn is None:
            self._schedule()

    def leave(self, watch: BroadcastWatch) -> None:
        """Remove a watch that has ended."""
        self._due.pop(watch, None)

    def is_due(self, watch: BroadcastWatch) -> bool:
        """Return True if the watch is entered for the next round."""
        return watch in self._due

    def _schedule(self) -> None:
        loop, pause = asyncio.get_running_loop(), self._rested - self._monotonic()
        self._turn = loop.call_later(pause, self._begin) if pause > 0 else loop.call_soon(self._begin)

    def _begin(self) -> None:
        # Events that are queued during the round enter their watch for the next one.
        due, self._due = self._due, {}
        began = self._monotonic()
        frames: Frames = {}
        self._sending = [watch for watch in due if watch.take(frames)]
        # Taken from the end of the list, so the first watch of the round has to be the last element.
        self._sending.reverse()
        self._at_once = math.ceil(len(self._sending) / ROUND_TURNS)
        self._worked = self._monotonic() - began
        self._send_some()

    def _send_some(self) -> None:
        began = self._monotonic()
        for _ in range(min(self._at_once, len(self._sending))):
            self._sending.pop().send()
            if self._monotonic() - began > TURN_SECONDS:
                break  # large events: the rest of the round takes more turns
        self._worked += self._monotonic() - began
        if self._sending:
            self._turn = asyncio.get_running_loop().call_soon(self._send_some)
            return
        self._turn = None
        self._rested = self._monotonic() + min(self._worked, LONGEST_PAUSE)
        # Events that arrived during the round have no turn of their own: `enter` starts none while one is planned.
        if self._due:
            self._schedule()


class BroadcastWatch:
    """One watch whose events are pushed to its connection."""

    def __init__(
        self,
        watcher: Watcher,
        direct: DirectAnswer,
        broadcaster: WatchBroadcaster,
        *,
        encoded: Callable[[tuple[Seen, ...]], bytes],
        shared: Hashable,
        bookmark: Callable[[], bytes] | None,
    ) -> None:
        """``encoded`` returns the bytes of events, the same for all watches with an equal ``shared`` (None: shared
        with no other). ``bookmark`` returns a bookmark, for clients that want one each minute."""
        self._watcher = watcher
        self._direct = direct
        self._broadcaster = broadcaster
        self._encoded = encoded
        self._shared = shared
        self._bookmark = bookmark
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._frame: bytes | memoryview | None = None
        """The bytes that are sent in this round, or left over from the last one."""
        self._due = False
        """True if a bookmark has to be sent when no events wait."""
        self._bookmark_timer: asyncio.TimerHandle | None = None
        self._slow_timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Push events until the watcher ends.

        Raises:
            ClientGone: the client has gone, or takes nothing off its connection.
        """
        self._watcher.on_events = self._enter
        # Both callbacks enter the watch: events wait for a client, or a client for events.
        self._direct.on_ready(self._enter)
        if self._bookmark is not None:
            self._bookmark_timer = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_is_due)
        self._enter()  # what came while the watch began
        try:
            await self._ended
        finally:
            self._watcher.on_events = None
            self._direct.on_ready(None)
            self._broadcaster.leave(self)
            for timer in (self._bookmark_timer, self._slow_timer):
                if timer is not None:
                    timer.cancel()
            # An error leads back here by its traceback: kept, it would be a cycle that holds the whole connection.
            self._ended = self._loop.create_future()
            self._ended.cancel()

    def take(self, frames: Frames) -> bool:
        """Take the queued events, if the client accepts bytes. Return True if there is something to `send`.

        ``frames`` are those of this round. A failure ends this watch alone: its own task raises it.
        """
        if self._ended.done():
            return False
        try:
            return self._take(frames)
        except Exception as error:  # the round goes on with the other watches
            self._fail(error)
            return False

    def _take(self, frames: Frames) -> bool:
        # The queue is left alone. Taking it would move the events into a frame whose memory has no bound.
        if not self._direct.ready:
            self._wait_for_client()
            return False
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None
        # The rest of the last frame precedes all new events, or the client would read the middle of another line.
        if self._frame is not None:
            return True
        events = tuple(self._watcher.taken(FRAME_BYTES))
        if events:
            self._frame = self._framed(events, frames)
        elif self._watcher.closed:
            self._ended.set_result(None)
        return bool(events)

    def send(self) -> None:
        """Send the taken bytes, as far as the client accepts them."""
        if self._frame is None or self._ended.done():
            return
        try:
            self._write_some(self._frame)
        except Exception as error:  # as above
            self._fail(error)
            return
        if self._due:
            self._send_bookmark()
        if self._frame is not None and not self._direct.ready:
            self._wait_for_client()
        # Also for events that are in the group alone: they woke this watch when it had a frame to send, and nothing
        # wakes it for them again.
        elif self._frame is not None or self._watcher.closed or self._watcher.has_events:
            self._enter()

    def _write_some(self, frame: bytes | memoryview) -> None:
        """Write a piece at a time: the frame is shared, but its encryption makes a copy for this client alone."""
        if len(frame) <= PIECE:
            self._frame = None
            self._direct.write(frame)
            return
        rest = memoryview(frame)
        for _ in range(PIECES):
            self._direct.write(rest[:PIECE])
            rest = rest[PIECE:]
            if not (rest and self._direct.ready):
                break
        self._frame = rest or None

    def _framed(self, events: tuple[Seen, ...], frames: Frames) -> bytes:
        if self._shared is None:
            return framed(self._encoded(events))
        # Events are compared by identity: watches with the same selection hold the same objects.
        key = (self._shared, *events)
        frame = frames.get(key)
        if frame is None:
            frame = frames[key] = framed(self._encoded(events))
        return frame

    def _enter(self) -> None:
        self._broadcaster.enter(self)

    def _wait_for_client(self) -> None:
        """Leave events queued until the connection is ready, and disconnect a client that is not ready for long."""
        if self._direct.gone:
            self._cut()
        # Not restarted: a client that takes a byte now and then would otherwise never be disconnected.
        elif self._slow_timer is None:
            self._slow_timer = self._loop.call_later(SLOW_SECONDS, self._cut)

    def _cut(self) -> None:
        self._fail(ClientGone("a watcher takes nothing off its connection"))
        # Aborted and not closed: closing would wait for the client to take what is buffered.
        if not self._direct.gone:
            self._direct.abort()

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _bookmark_is_due(self) -> None:
        """Send a bookmark now, or behind the events that wait, and set the timer for the next one."""
        self._due = True
        if not self._broadcaster.is_due(self):
            self._send_bookmark()
        self._bookmark_timer = self._loop.call_later(BOOKMARK_SECONDS, self._bookmark_is_due)

    def _send_bookmark(self) -> None:
        """Send the bookmark that is due, unless events have to be sent first."""
        # A bookmark promises that everything up to its revision was sent, so nothing may wait before it.
        waiting = self._frame is not None or self._watcher.has_events or not self._direct.ready
        if self._due and not waiting and self._bookmark is not None:
            self._due = False
            self._direct.write(framed(self._bookmark()))
