"""Small shapes of concurrency: the first of several, tasks that end with a block, a wake-up, a ready descriptor."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec

_LOG = logging.getLogger(__name__)
_P = ParamSpec("_P")


async def first_of(*work: Coroutine[Any, Any, object]) -> None:
    """Run all of ``work`` side by side until the first is done; the others are cancelled and awaited.

    Raises:
        ExceptionGroup: what those of them raised that were not cancelled.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # All of them, the finished one included, for which it has no effect. Leaving the group awaits them.
        for task in tasks:
            task.cancel()


async def until_set(event: Event, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until it is done or the event is set, which cancels it.

    `first_of` would do the same with two more tasks, which take 4 KB. A process may simulate 100,000 pods, and each
    waits here for its deletion.
    """
    interruption = _Interruption()
    waiting = event.waiting()
    waiting.add_done_callback(interruption.interrupt)
    try:
        await work
    except asyncio.CancelledError:
        # Another cancellation may have come at the same time, and must reach the caller.
        if not interruption.end():
            raise
    finally:
        interruption.end()
        event.forget(waiting)


class _Interruption:
    """The cancellation of the current task by an event."""

    __slots__ = ("_before", "_interrupted", "_task")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        """None once the work is over."""
        self._before = self._task.cancelling() if self._task is not None else 0
        self._interrupted = False

    def interrupt(self, _: object) -> None:
        """Cancel the task. It is called in a turn of its own: a task that sets the event itself must not be cancelled
        while it runs, because its work may end without another await."""
        if self._task is not None:
            self._interrupted = True
            self._task.cancel()

    def end(self) -> bool:
        """Withdraw the cancellation, if the event caused one. Return True if the task is not cancelled otherwise."""
        task, self._task = self._task, None
        return self._interrupted and task is not None and task.uncancel() <= self._before


def until_gone(work: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, Coroutine[Any, Any, None]]:
    """Decorate what serves a stream: it ends where it raises an OSError, since its client or its port has gone.

    An error that leaves a task group is in a reference cycle with the group's frame, and would keep the connection with
    all its buffers until the next garbage collection.
    """

    @functools.wraps(work)
    async def serve(*arguments: _P.args, **options: _P.kwargs) -> None:
        try:
            await work(*arguments, **options)
        except OSError as error:
            _LOG.debug("a stream has ended: %s", error)
            error.__traceback__ = None  # the stream's reader keeps the error, and its frames the reader

    return serve


class BlockTasks:
    """Tasks beside a block of code: ``async with`` awaits them all, and cancels those that are left at its end.

    One that raises cancels the block and the others, as in every task group.
    """

    __slots__ = ("_group", "_tasks")

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> BlockTasks:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Before the group is left, which would wait for its tasks, and these run until they are cancelled.
        self.cancel_all()
        group, self._group = self._group, None
        assert group is not None
        await group.__aexit__(kind, error, trace)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` beside the block.

        Raises:
            RuntimeError: the block has not begun, or is over.
        """
        if self._group is None:
            work.close()
            raise RuntimeError("a task can only be started inside the block; enter it with `async with`")
        task = self._group.create_task(work)
        self._tasks.add(task)
        # A pod that restarts its containers for months would otherwise keep every finished task.
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel_all(self) -> None:
        """Cancel the tasks that run now; the block continues, and others may be started."""
        for task in tuple(self._tasks):
            task.cancel()


class Event:
    """An `asyncio.Event` of 80 bytes instead of 900: a pod has four of them, and a process may simulate 100,000."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: tuple[asyncio.Future[None], ...] = ()

    def is_set(self) -> bool:
        """Return True if it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake all tasks that wait for it."""
        self._is_set = True
        for waiting in self._waiting:
            _settle(waiting)

    def clear(self) -> None:
        """Unset it: later waits last until it is set again."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait until it is set."""
        if self._is_set:
            return
        waiting = self.waiting()
        try:
            await waiting
        finally:
            self.forget(waiting)

    def waiting(self) -> asyncio.Future[None]:
        """Return a future that is done as soon as the event is set. The caller passes it to `forget` later."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_set:
            waiting.set_result(None)
        else:
            self._waiting = (*self._waiting, waiting)
        return waiting

    def forget(self, waiting: asyncio.Future[None]) -> None:
        """Drop a future of `waiting`."""
        self._waiting = tuple([other for other in self._waiting if other is not waiting])


class Wakeup:
    """Wakes one waiting task after a time, or when another task notifies it. Times are in seconds."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = Event()

    def notify(self) -> None:
        """End the present wait, or the next one at once."""
        self._event.set()

    def clear(self) -> None:
        """Discard notifications so far; the caller is about to check everything."""
        self._event.clear()

    async def wait(self, seconds: float | None) -> None:
        """Wait until notified, for ``seconds`` at most; None: for as long as it takes."""
        # Most of the pods of a node wait here without an end, for which no timeout needs to exist.
        if seconds is None:
            await self._event.wait()
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(seconds, 0.0)):
                    await self._event.wait()
        self._event.clear()


async def readable(*descriptors: int) -> None:
    """Wait until there is something to read from one of ``descriptors``, or its other end is closed."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        for descriptor in descriptors:
            loop.add_reader(descriptor, _settle, ready)
        await ready
    finally:
        for descriptor in descriptors:
            # Also on cancellation: a reader that is left would be called for another file with the same descriptor
            # number.
            loop.remove_reader(descriptor)


async def writable(descriptor: int) -> None:
    """Wait until ``descriptor`` takes more, or its other end is closed."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
