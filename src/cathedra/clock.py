"""Clocks that are passed as arguments, so that a whole cluster can run in virtual time.

Nothing in Cathedra reads the system clock or sleeps on its own: every part takes a `Clock`. In production that is
`SystemClock`. In tests and simulations the parts run on a `VirtualTimeLoop`, an event loop whose time jumps to the next
timer as soon as nothing is ready to run: ``asyncio.sleep``, ``asyncio.timeout`` and ``loop.call_later`` all follow it,
so an hour of back-off takes microseconds and two runs with one seed are equal, step by step.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Protocol, TypeVar, TypeVarTuple

__all__ = ["Clock", "LoopClock", "SystemClock", "VirtualTimeDeadlock", "VirtualTimeLoop", "process_age", "run_virtual"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DEFAULT_EPOCH = 1_767_225_600.0
"""Start of virtual time: 2026-01-01T00:00:00Z, in seconds since the Unix epoch."""


class Clock(Protocol):
    """Time, as a part reads it and waits for it. Seconds everywhere."""

    def now(self) -> float:
        """Return the wall clock: seconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards; only differences mean anything."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``; cancellation ends the wait at once."""


class SystemClock:
    """The machine's own clock."""

    # The functions themselves: a pod on its way reads the clock a dozen times.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(seconds)


def process_age() -> float:
    """Return the seconds since the kernel started this process, to a hundredth: imports and all (Linux)."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


class LoopClock:
    """A clock that follows the running event loop's time, virtual or not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = DEFAULT_EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        """Return the seconds since the Unix epoch, counted from ``epoch`` at loop time zero."""
        return self._epoch + self._loop.time()

    def monotonic(self) -> float:
        """Return the loop's time in seconds."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait in the loop's time."""
        await asyncio.sleep(seconds)


class VirtualTimeDeadlock(RuntimeError):
    """Nothing is ready and no timer is set: the program would wait for ever."""


class _JumpingSelector(selectors.SelectSelector):
    """Polls for real I/O, but passes idle time by moving the loop's clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Without descriptors, which is usual, the system call would be the longest part of a turn.
        ready = super().select(0) if self.get_map() else []
        # Real I/O first; time stands still while there is any.
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise VirtualTimeDeadlock(
                "every task waits and no timer is set; something awaits an event that no task is left to send"
            )
        self.elapsed += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. It serves no sockets with other processes.

    What is handed to a thread (``asyncio.to_thread``, `cathedra.files.durable`) runs at once and takes no time: a real
    thread would end at a moment that no seed decides.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # A timer is due when the clock has reached it exactly; the loop's own resolution would round it away.
        self._clock_resolution = 1e-9

    def _make_self_pipe(self) -> None:
        """Leave out the pair of sockets with which threads and signals wake a loop that waits.

        This loop never waits: it polls and jumps. WebAssembly has no sockets.
        """
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None:
        """Close nothing: there are no sockets."""

    def time(self) -> float:
        """Return the seconds of virtual time since the loop was made."""
        return self._jumping.elapsed

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call ``func`` now; the future is done when this returns."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            # ``Exception`` only: an interrupt of the test run must not end up in a future.
            future.set_exception(error)
        return future


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end in virtual time and return its result.

    Raises:
        VirtualTimeDeadlock: every task waits for something that cannot come.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
