"""Events pushed to watches that take them at once: one turn of the loop for all of them, and the same bytes for those
who see the same.

A task for each watch, woken by each event, costs more than all the rest of a delivery, and takes that time from
the writes that the watchers wait for. So a watch whose connection takes bytes directly has no task: when events are
queued for it, it is entered for the next turn, in which every watch that is due gets all that waits for it, joined and
framed once for all watches with the same selection and form. What a client does not take stays in its watcher's queue,
which is bounded; a client that takes nothing for long is sent away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from cathedra.apiserver.http.request import ClientGone
from cathedra.apiserver.registry.watching import Seen, Watcher
from cathedra.asgi.direct import DirectAnswer, framed

__all__ = ["BOOKMARK_SECONDS", "SLOW_SECONDS", "Fanout", "PushedWatch"]

BOOKMARK_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 60.0
"""For which a client may leave events lying in its connection; then it is cut."""
LONGEST_PAUSE: Final = 0.02

Frames = dict[tuple[Hashable, ...], bytes]
"""What was framed in one turn, by form and events."""


class Fanout:
    """The watches of one server that have events to send.

    Between two turns it pauses for as long as the last one took, 20 ms at most: half of the time belongs to everything
    else, and events gather. A first event after a quiet time goes out in the turn after its commit.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """``monotonic`` is the time in seconds."""
        self._monotonic = monotonic
        self._due: dict[PushedWatch, None] = {}
        self._turn: asyncio.Handle | None = None
        self._rested = 0.0
        """When the next turn may be."""

    def enter(self, watch: PushedWatch) -> None:
        """Let a watch send what waits for it in the next turn."""
        self._due[watch] = None
        if self._turn is not None:
            return
        loop, pause = asyncio.get_running_loop(), self._rested - self._monotonic()
        self._turn = loop.call_later(pause, self._take_turn) if pause > 0 else loop.call_soon(self._take_turn)

    def leave(self, watch: PushedWatch) -> None:
        """Forget a watch that has ended."""
        self._due.pop(watch, None)

    def is_due(self, watch: PushedWatch) -> bool:
        """Whether it will send something in the next turn."""
        return watch in self._due

    def _take_turn(self) -> None:
        self._turn = None
        due, self._due = self._due, {}
        began = self._monotonic()
        frames: Frames = {}
        for watch in due:
            watch.send(frames)
        ended = self._monotonic()
        self._rested = ended + min(ended - began, LONGEST_PAUSE)


class PushedWatch:
    """One watch whose events are pushed to its connection."""

    def __init__(
        self,
        watcher: Watcher,
        exchange: DirectAnswer,
        fanout: Fanout,
        *,
        encoded: Callable[[tuple[Seen, ...]], bytes],
        shared: Hashable,
        bookmark: Callable[[], bytes] | None,
    ) -> None:
        """``encoded`` makes the bytes of events, the same for all watches with an equal ``shared`` (None: for none).
        ``bookmark`` makes one, for clients that want them when a minute brings no event."""
        self._watcher = watcher
        self._exchange = exchange
        self._fanout = fanout
        self._encoded = encoded
        self._shared = shared
        self._bookmark = bookmark
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._sent = self._loop.time()
        self._bookmark_timer: asyncio.TimerHandle | None = None
        self._slow_timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Push events until the watcher ends.

        Raises:
            ClientGone: the client has gone, or takes nothing off its connection.
        """
        self._watcher.on_events = self._enter
        self._exchange.on_ready(self._enter)
        if self._bookmark is not None:
            self._bookmark_timer = self._loop.call_later(BOOKMARK_SECONDS, self._send_bookmark)
        self._enter()  # what came while the watch began
        try:
            await self._ended
        finally:
            self._watcher.on_events = None
            self._exchange.on_ready(None)
            self._fanout.leave(self)
            for timer in (self._bookmark_timer, self._slow_timer):
                if timer is not None:
                    timer.cancel()

    def send(self, frames: Frames) -> None:
        """Send what waits, if the client takes it; ``frames`` are those of this turn."""
        if self._ended.done():
            return
        if not self._exchange.ready:
            self._wait_for_client()
            return
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None
        events = tuple(self._watcher.taken())
        if events:
            try:
                self._push(events, frames)
            except Exception as error:  # the failure of one watch, which its own task reports, is none of the others
                self._ended.set_exception(error)
                return
        if self._watcher.closed:
            self._ended.set_result(None)

    def _push(self, events: tuple[Seen, ...], frames: Frames) -> None:
        key = (self._shared, *events)
        frame = frames.get(key) if self._shared is not None else None
        if frame is None:
            frame = framed(self._encoded(events))
            if self._shared is not None:
                frames[key] = frame
        self._exchange.write(frame)
        self._sent = self._loop.time()

    def _enter(self) -> None:
        self._fanout.enter(self)

    def _wait_for_client(self) -> None:
        """Events stay queued; the connection says when it goes on."""
        if self._exchange.gone:
            self._cut()
        elif self._slow_timer is None:
            self._slow_timer = self._loop.call_later(SLOW_SECONDS, self._cut)

    def _cut(self) -> None:
        if not self._ended.done():
            self._ended.set_exception(ClientGone("a watcher takes nothing off its connection"))

    def _send_bookmark(self) -> None:
        """Send a bookmark if no event was sent for a minute and none waits, and look again when it may be time."""
        quiet = self._loop.time() - self._sent
        waiting = self._fanout.is_due(self) or not self._exchange.ready
        if quiet >= BOOKMARK_SECONDS and not waiting and self._bookmark is not None:
            self._exchange.write(framed(self._bookmark()))
            self._sent, quiet = self._loop.time(), 0.0
        left = BOOKMARK_SECONDS - quiet
        self._bookmark_timer = self._loop.call_later(left if left > 0 else BOOKMARK_SECONDS, self._send_bookmark)
