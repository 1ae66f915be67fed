"""Computations that a user can make long: expressions, validation by schemas, documents of many kinds.

They run beside the event loop (`cathedra.offload`), each user's in rotation with those of others. The computations of
one request share an `Allowance`: a turn on the loop, which suffices for almost all of them, and some processor time in
the thread. It is processor time and not time on the clock, so that a busy machine refuses nothing that an idle one
accepts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from cathedra.api.status import StatusError, failure
from cathedra.deadline import thread_time
from cathedra.offload import ComputeThread, DeadlineExceeded, Interruption, TimeSlice, TimeSliceOver

T = TypeVar("T")

EXPRESSION_SECONDS: Final = 1.0
"""Processor time for the expressions of one request. Kubernetes' cost limits count units that take its own machine code
about a second; Python may take ten times as long for them."""
VALIDATION_SECONDS: Final = 10.0
"""Processor time for the schema and rules of one custom object, or of one definition."""
LARGE: Final = 128 * 1024
"""Bytes of a body or an object from which on even single steps, such as comparing two lists, are too long for the
loop."""
_DOCUMENT_SECONDS: Final = 120.0
"""Seconds on the clock in the thread. A request has no more than half of them, and ends its computation with itself."""
_TURN: Final = 0.01
_SHORT_TURN: Final = 0.002
"""Seconds of a turn on the loop while the thread is busy: then many requests may come that use their whole turn."""
_CALLS: Final = 64
"""Calls of a limit between two reads of the processor time, which are system calls."""


def timed_out() -> StatusError:
    """Return the 504 of work that was not done in time."""
    return failure(
        504,
        "Timeout",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
    )


class Computations:
    """The long computations of one server."""

    def __init__(self, thread: ComputeThread | None = None, *, cpu: Callable[[], float] = thread_time) -> None:
        """``cpu`` returns the processor time of the calling thread in seconds."""
        self._thread = thread or ComputeThread()
        self._cpu = cpu
        self._in_thread: Counter[str] = Counter()
        """The number of computations of each owner that run or wait in the thread."""

    def allowance(self, owner: str, seconds: float) -> Allowance:
        """Return the processor time of one request."""
        return Allowance(self, owner, seconds)

    async def compute(self, work: Callable[[Interruption], T], owner: str) -> T:
        """Return what ``work`` returns, from the thread; without a limit of processor time.

        Raises:
            DeadlineExceeded: ``work`` raised it.
        """
        self._in_thread[owner] += 1
        try:
            return await self._thread.run(work, seconds=_DOCUMENT_SECONDS, owner=owner)
        finally:
            self._in_thread[owner] -= 1
            if not self._in_thread[owner]:
                del self._in_thread[owner]

    def turn_of(self, owner: str) -> float:
        """Return the seconds that a request of the owner may compute on the loop: none while other computations of
        that owner are in the thread."""
        if not self._in_thread:
            return _TURN
        return 0.0 if owner in self._in_thread else _SHORT_TURN

    def processor_time(self) -> float:
        """Return the processor time of the calling thread in seconds."""
        return self._cpu()

    def statistics(self) -> dict[str, int]:
        """Return the number of computations done in the thread, and of those that wait for it."""
        return self._thread.statistics()

    def close(self) -> None:
        """End the thread when it is idle."""
        self._thread.close()


def _no_time() -> float:
    """Return 0: a turn on the loop is limited by the clock."""
    return 0.0


class Limit:
    """Return True from a call if the computation has to stop. To be called at least once per millisecond of work."""

    __slots__ = ("_calls", "_cpu", "_end", "_interruption")

    def __init__(self, interruption: Interruption, seconds: float, cpu: Callable[[], float]) -> None:
        """Set the limit to ``seconds`` of processor time from now."""
        self._interruption = interruption
        self._cpu = cpu
        self._end = cpu() + seconds
        self._calls = 0

    def __call__(self) -> bool:
        """Return True once the processor time is used up, the caller has gone, or the deadline is over."""
        if self._interruption():
            return True
        self._calls += 1
        # A system call at each check would cost more than the work between two of them.
        if self._calls < _CALLS:
            return False
        if self._cpu() < self._end:
            self._calls = 0
            return False
        return True

    def check(self) -> None:
        """Return if the computation may go on.

        Raises:
            DeadlineExceeded: it has to stop.
        """
        if self():
            raise DeadlineExceeded(self._interruption.seconds)


class Allowance:
    """The processor time that the computations of one request share."""

    __slots__ = ("_computations", "_left", "_owner", "_turn")

    def __init__(self, computations: Computations, owner: str, seconds: float) -> None:
        self._computations = computations
        self._owner = owner
        self._left = seconds
        self._turn: float | None = None

    async def complete(self, work: Callable[[Limit], T], *, size: int = 0) -> T:
        """Return what ``work`` returns: from the loop if it takes less than a turn, else from the thread, where it is
        started again. ``size`` is that of the objects that it reads, in bytes; with `LARGE` ones it has no turn.

        Raises:
            DeadlineExceeded: ``work`` raised it.
        """
        turn = self._computations.turn_of(self._owner) if self._turn is None else self._turn
        # Fast path: almost all computations take less than a turn, and a thread switch costs more than they do. One
        # that does not is started again in the thread, so it must not have side effects.
        if turn > 0 and size < LARGE:
            began = time.monotonic()
            try:
                return work(Limit(TimeSlice(turn), 1.0, _no_time))
            except TimeSliceOver:
                pass
            finally:
                self._turn = max(turn - (time.monotonic() - began), 0.0)
        return await self._computations.compute(self._limited(work), self._owner)

    def _limited(self, work: Callable[[Limit], T]) -> Callable[[Interruption], T]:
        def run(interruption: Interruption) -> T:
            cpu = self._computations.processor_time
            began = cpu()
            try:
                return work(Limit(interruption, self._left, cpu))
            finally:
                # Also when it failed: a request that repeats a failing computation must not get new time for each.
                self._left -= cpu() - began

        return run
