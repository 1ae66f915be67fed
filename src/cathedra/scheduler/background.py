"""Background tasks: bindings and status patches that are written while the next pod is scheduled.

One object owns every task, and a limit bounds the requests that are in flight to the API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

STOP_SECONDS: Final = 1.0
"""Seconds that a stopping scheduler waits for responses to requests in flight, and for plugins to release what they
reserved."""

_LOG = logging.getLogger(__name__)


class TaskLimit:
    """A limit on the number of tasks inside ``with await limit.place()``; further tasks wait in order.

    It does the work of an `asyncio.Semaphore` in about twelve calls less for each task that waited.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def place(self) -> TaskLimit:
        """Wait for a place. Leaving the context returns it."""
        if self._free:
            self._free -= 1
            return self
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # A place that was given in the moment of the cancellation belongs to the next one.
            if turn.done() and not turn.cancelled():
                self._leave()
            raise
        return self

    def __enter__(self) -> None:
        """Enter with the place that `place` returned."""

    def __exit__(self, *failure: object) -> None:
        self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                # The slot passes to the task directly. If it were returned to `_free` first, a new task could overtake
                # those that wait.
                turn.set_result(None)
                return
        self._free += 1


class Background:
    """Tasks of one scheduler. Leaving the context cancels what still runs."""

    def __init__(self, limit: int) -> None:
        """``limit``: how many may write to the API at the same time."""
        self.writing = TaskLimit(limit)
        self._tasks: dict[asyncio.Task[None], object] = {}
        """Running tasks, and their subjects."""
        self._spared: set[object] = set()
        self._closed = False

    async def __aenter__(self) -> Background:
        return self

    async def __aexit__(self, *failure: Any) -> None:
        # From here on `start` refuses work. Otherwise a task that ends could start another one after the cancellation,
        # and nothing would ever stop it.
        self._closed = True
        for task, subject in self._tasks.items():
            if subject not in self._spared:
                task.cancel()
        # Spared tasks wait for a response of the server. Without this limit a server that never responds would keep the
        # scheduler from stopping.
        overdue = asyncio.get_running_loop().call_later(STOP_SECONDS, self._cancel_spared)
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            overdue.cancel()
            await self._end_all()

    def start(self, work: Coroutine[Any, Any, None], subject: object = None) -> None:
        """Do ``work`` beside everything else; nothing is begun any more once the context is being left. By its
        ``subject``, which no other work may have, it can be spared."""
        if self._closed:
            # A coroutine that is never started warns when it is collected, so it is closed.
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = subject
        task.add_done_callback(self._ended)

    def spare(self, subject: object) -> None:
        """Do not cancel the work for ``subject`` when the context is left, unless `STOP_SECONDS` have passed."""
        self._spared.add(subject)

    def is_spared(self, subject: object) -> bool:
        """Return True if the work for ``subject`` runs and is spared."""
        return subject in self._spared

    @property
    def is_closing(self) -> bool:
        """True while the context is being left: work that is scheduled for later will not be done."""
        return self._closed

    @property
    def running(self) -> int:
        """Number of running tasks."""
        return len(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Handle the end of some work: a defect in it is logged and ends nothing but that work."""
        self._spared.discard(self._tasks.pop(task))
        if task.cancelled():
            # A task that was cancelled from outside has a cancelling count. Without one the coroutine raised
            # CancelledError by itself, which is a defect.
            if not task.cancelling():
                _LOG.error("work in the background broke: it cancelled itself")
            return
        defect = task.exception()
        if defect is not None:
            _LOG.error("work in the background broke", exc_info=defect)

    async def _end_all(self) -> None:
        """Cancel the remaining tasks and wait for them. Some remain if the owner is cancelled while it waits."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _cancel_spared(self) -> None:
        for task, subject in self._tasks.items():
            if subject in self._spared:
                task.cancel()
