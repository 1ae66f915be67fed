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
from typing import TypeVar

from cathedra.deadline import SLICE_SECONDS, DeadlineExceeded, Interruption, TimeSlice, TimeSliceOver

__all__ = ["SLICE_SECONDS", "ComputeThread", "DeadlineExceeded", "Interruption", "TimeSlice", "TimeSliceOver"]

T = TypeVar("T")


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
        self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "", turn: float = SLICE_SECONDS
    ) -> T:
        """Return what ``work`` returns: from the event loop if it takes less than ``turn``, else from the thread.

        Raises:
            DeadlineExceeded: ``work`` raised it, because ``seconds`` in the thread were not enough.
        """
        try:
            # Most computations end here. A thread costs a switch and two turns of the loop.
            return work(TimeSlice(turn, monotonic=self._monotonic))
        except TimeSliceOver:
            return await self.run(work, seconds=seconds, owner=owner)

    async def run(self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "") -> T:
        """Return what ``work`` returns, from the thread. Its ``seconds`` begin when the thread begins with it.

        If the caller is cancelled, so is the work: it stops at its next call of the interruption.

        Raises:
            DeadlineExceeded: ``work`` raised it.
        """
        # Before the deadline is set: waiting for others must not use up the time of this computation.
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
        if done.done():
            # Short work may have ended by now (from Python 3.14 on, the future then is done at once). A callback would
            # run in a later turn of the loop, and the caller would find the thread busy and its work not counted.
            self._ended(done)
        else:
            done.add_done_callback(self._ended)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            # A thread cannot be cancelled from outside; it has to find this flag. Until then it would hold the thread
            # for a client that has gone.
            interruption.cancelled = True
            raise

    def close(self) -> None:
        """End the thread when it is idle. Its owner calls this once nothing runs any more."""
        if self._executor is not None:
            # Without waiting, because this runs on the loop; the thread ends after its present computation.
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
            # The turn was given in the moment of the cancellation. Not passed on, the thread would be idle for ever.
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
