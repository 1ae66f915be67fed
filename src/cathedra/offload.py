"""Long computations beside the event loop: a turn on the loop first, then a thread with a deadline.

All parts of `cathedra up` share one event loop, so a computation that a user can make long must not run on it. Python
threads do not run in parallel either, but they take turns. `ComputeThread` runs one computation at a time in a thread
of its own, and `Interruption`, which every computation gets, makes it fair: each millisecond it releases the
interpreter for a moment, so that the loop waits about that long instead of the interpreter's five milliseconds per
system call.

Most computations are short, and a thread costs them 0.1 ms. Therefore `ComputeThread.complete` calls the function on
the loop first, for one turn of a few milliseconds, and starts again in the thread only if that was not enough:

    compute = ComputeThread()

    def validate(interrupted: Interruption) -> list[str]:
        return [check(rule, interrupted) for rule in rules]

    errors = await compute.complete(validate, seconds=1.0, owner=user.name)

The function must be safe to start again and to run in another thread: it reads frozen data and writes nothing but memos
for which one assignment is the whole change. It calls ``interrupted`` (or ``interrupted.check``) at least once per
millisecond. ``interrupted`` is also what `cathedra.cel.program.Program.evaluate` takes as its argument of that name. A
function that never calls it still runs beside the loop (which then waits up to 10 ms per system call), but cannot be
ended.

The work of different owners is done in rotation, so that one owner's queue delays another owner by one computation.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["TURN_SECONDS", "ComputeThread", "DeadlineExceeded", "Interruption", "Turn", "TurnOver"]

T = TypeVar("T")

TURN_SECONDS: Final = 0.01
"""How long a computation may run on the event loop before it moves to the thread."""
_PAUSE_EVERY: Final = 0.001
"""Seconds of work between two pauses of a computation in the thread."""
_PAUSE: Final = 0.00005
"""Seconds of a pause: long enough for a waiting thread to take the interpreter. Measured with a server on the loop that
answers a connection in 0.5 ms: beside a computation without pauses it takes 8.4 ms, with them 1.7 ms."""


class DeadlineExceeded(Exception):
    """A computation was stopped because it took longer than it may, or because its caller was cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"stopped after {seconds:g} s")


class TurnOver(Exception):
    """A computation has used up its turn on the event loop. It is to be started again in the thread."""


class Interruption:
    """Deadline of one computation, and its pauses. Call it often: it costs 0.1 µs."""

    __slots__ = ("_end", "_monotonic", "_next_pause", "_sleep", "cancelled", "seconds")

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
        now = monotonic()
        self._end = now + seconds
        self._next_pause = now + _PAUSE_EVERY

    def __call__(self) -> bool:
        """Return True if the computation has to stop."""
        now = self._monotonic()
        if now >= self._end or self.cancelled:
            return True
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
    def left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(self._end - self._monotonic(), 0.0)


class Turn(Interruption):
    """A turn on the event loop. At its end every call raises `TurnOver`, also through code that expects a bool."""

    __slots__ = ()

    def __init__(self, seconds: float = TURN_SECONDS, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(seconds, monotonic=monotonic)

    def __call__(self) -> bool:
        """Return False as long as the turn lasts.

        Raises:
            TurnOver: it is over.
        """
        if super().__call__():
            raise TurnOver
        return False


class ComputeThread:
    """One thread for computations that would hold up the event loop. Owners take turns."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._monotonic, self._sleep = monotonic, sleep
        self._executor: ThreadPoolExecutor | None = None
        self._busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Owner → its computations that wait for the thread; the owner whose turn is next comes first."""
        self._done = 0

    async def complete(
        self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "", turn: float = TURN_SECONDS
    ) -> T:
        """Return what ``work`` returns: from the event loop if it takes less than ``turn``, else from the thread.

        Raises:
            DeadlineExceeded: ``work`` raised it, because ``seconds`` in the thread were not enough.
        """
        try:
            return work(Turn(turn, monotonic=self._monotonic))
        except TurnOver:
            return await self.run(work, seconds=seconds, owner=owner)

    async def run(self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "") -> T:
        """Return what ``work`` returns, from the thread. Its ``seconds`` begin when the thread begins with it.

        If the caller is cancelled, so is the work: it stops at its next call of the interruption.

        Raises:
            DeadlineExceeded: ``work`` raised it.
        """
        await self._acquire(owner)
        interruption = Interruption(seconds, monotonic=self._monotonic, sleep=self._sleep)
        try:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
            done = asyncio.get_running_loop().run_in_executor(self._executor, work, interruption)
        except BaseException:
            self._release()
            raise
        # The thread is busy until the work ends, which is later than the caller's cancellation.
        done.add_done_callback(self._ended)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            interruption.cancelled = True
            raise

    def close(self) -> None:
        """End the thread when it is idle. Its owner calls this once nothing runs any more."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    def statistics(self) -> dict[str, int]:
        """Computations done in the thread, and those that wait for it."""
        return {"computed": self._done, "computations_waiting": sum(map(len, self._waiting.values()))}

    async def _acquire(self, owner: str) -> None:
        if not self._busy:
            self._busy = True
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()
            raise

    def _ended(self, done: asyncio.Future[T]) -> None:
        if not done.cancelled():
            done.exception()  # retrieved also where the caller was cancelled
        self._done += 1
        self._release()

    def _release(self) -> None:
        while self._waiting:
            owner = next(iter(self._waiting))
            queue = self._waiting.pop(owner)
            granted = queue.popleft()
            if queue:
                # The owner goes to the end of the rotation.
                self._waiting[owner] = queue
            if not granted.done():
                granted.set_result(None)
                return
        self._busy = False
