"""Deadlines for computations, on the standard library alone.

A computation that a user can make long gets an `Interruption` and calls it often. `Interruption` ends a computation at
its deadline and makes it pause, so that other threads can run; a `TimeSlice` ends it as soon as it is too long for the
event loop. `cathedra.offload` runs computations with both. A `CPULimit` bounds the processor time of CEL expressions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.01
"""Seconds for which a computation may run on the event loop before it moves to the thread."""
_PAUSE_EVERY: Final = 0.001
"""Seconds of work between two pauses of a computation in the thread."""
_PAUSE: Final = 0.00005
"""Seconds of a pause: long enough for a waiting thread to take the interpreter. Measured with a server on the loop that
answers a connection in 0.5 ms: beside a computation without pauses it takes 8.4 ms, with them 1.7 ms."""

thread_time: Final[Callable[[], float]] = getattr(time, "thread_time", time.process_time)
"""Processor time of the calling thread in seconds. WebAssembly has one thread and no clock of its own for it."""
_BETWEEN: Final = 0.02
"""Seconds between two readings of the processor time, which cost ten times as much as reading the clock."""


class DeadlineExceeded(Exception):
    """A computation was stopped because it took longer than it may, or because its caller was cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"stopped after {seconds:g} s")


class TimeSliceOver(Exception):
    """A computation has used up its time slice on the event loop. It is to be started again in the thread."""


class Interruption:
    """Deadline of one computation, and its pauses. Call it often: it costs 0.1 µs."""

    __slots__ = ("_began", "_end", "_monotonic", "_next_pause", "_sleep", "cancelled", "seconds")

    def __init__(
        self,
        seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """``seconds`` until the deadline. With ``sleep`` the computation pauses, so that other threads can run."""
        self.seconds = seconds
        self.cancelled = False
        self._monotonic, self._sleep = monotonic, sleep
        self._began = now = monotonic()
        self._end = now + seconds
        self._next_pause = now + _PAUSE_EVERY

    def __call__(self) -> bool:
        """Return True if the computation has to stop."""
        now = self._monotonic()
        if now >= self._end or self.cancelled:
            return True
        # Python threads switch every 5 ms only. Without pauses each system call of the event loop would wait that long.
        if now >= self._next_pause and self._sleep is not None:
            self._sleep(_PAUSE)
            self._next_pause = self._monotonic() + _PAUSE_EVERY
        return False

    def check(self) -> None:
        """Return if the computation may go on.

        Raises:
            DeadlineExceeded: it has to stop.
        """
        if self():
            raise DeadlineExceeded(self.seconds)

    @property
    def elapsed(self) -> float:
        """Seconds since the computation began."""
        return self._monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self._end - self._monotonic(), 0.0)


class TimeSlice(Interruption):
    """A time slice on the event loop. At its end every call raises `TimeSliceOver`, also through code that expects a
    bool.

    It begins with its first call: work before that is short, or done only once.
    """

    __slots__ = ("_started",)

    def __init__(self, seconds: float = SLICE_SECONDS, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(seconds, monotonic=monotonic)
        self._started = False

    def __call__(self) -> bool:
        """Return False as long as the slice lasts.

        Raises:
            TimeSliceOver: it is over.
        """
        if not self._started:
            self._started = True
            # Counted from the first call, since parsing and sorting before it are done once, and starting again would
            # repeat them.
            self._end = self._monotonic() + self.seconds
        elif self._monotonic() >= self._end:
            # An exception and no True: the computation may treat True as "invalid" and return a result that is only
            # half computed.
            raise TimeSliceOver
        return False


class CPULimit:
    """Returns True when more than ``seconds`` of the thread's processor time have passed since it was created.

    Kubernetes' cost limits of CEL correspond to about a second of its own code. The same cost may take Python ten times
    as long, and the server has one event loop. Processor time is counted, so a busy machine does not shorten the limit.
    """

    __slots__ = ("_cpu", "_end", "_monotonic", "_next")

    def __init__(
        self,
        seconds: float = 1.0,
        *,
        cpu: Callable[[], float] = thread_time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cpu, self._monotonic = cpu, monotonic
        self._end = cpu() + seconds
        self._next = monotonic() + _BETWEEN

    def __call__(self) -> bool:
        now = self._monotonic()
        if now < self._next:
            return False
        self._next = now + _BETWEEN
        return self._cpu() > self._end
