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

A computation of seconds on a state of hundreds of megabytes is better done by `ComputeProcess`. In a thread, the
garbage collections that it causes would stop the event loop for a second, and what it has allocated would stay.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from io import FileIO
from typing import NoReturn, Protocol, TypeVar

from cathedra.deadline import SLICE_SECONDS, DeadlineExceeded, Interruption, TimeSlice, TimeSliceOver

__all__ = [
    "SLICE_SECONDS",
    "ComputationLost",
    "Compute",
    "ComputeProcess",
    "ComputeThread",
    "DeadlineExceeded",
    "Interruption",
    "TimeSlice",
    "TimeSliceOver",
]

T = TypeVar("T")
_GRACE_SECONDS = 2.0
"""Time after its deadline at which a process is ended that has not stopped by itself."""
_NICENESS = 5
"""Niceness that is added for a process, because the event loop must not wait for it on a busy machine."""


class ComputationLost(Exception):
    """The process of a computation has ended without a result, as for lack of memory."""


class Compute(Protocol):
    """Computes beside the event loop."""

    async def run(self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "") -> T:
        """Return what ``work`` returns.

        Raises:
            DeadlineExceeded: ``seconds`` were not enough.
        """

    def close(self) -> None:
        """End what waits for work."""


class _Rotation:
    """One seat, which the owners that wait for it get in turn."""

    def __init__(self) -> None:
        self._busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Owner → its computations that wait for the seat; the owner whose turn is next comes first."""

    @property
    def waiting(self) -> int:
        """Number of computations that wait."""
        return sum(map(len, self._waiting.values()))

    async def acquire(self, owner: str) -> None:
        if not self._busy:
            self._busy = True
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            # The turn was given in the moment of the cancellation. Not passed on, the seat would be empty for ever.
            if granted.done() and not granted.cancelled():
                self.release()
            raise

    def release(self) -> None:
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
        self._rotation = _Rotation()
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
            MemoryError: the thread cannot be started, for want of memory or because of a limit of processes.
        """
        # Before the deadline is set: waiting for others must not use up the time of this computation.
        await self._rotation.acquire(owner)
        interruption = Interruption(seconds, monotonic=self._monotonic, sleep=self._sleep)
        try:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
            done = asyncio.get_running_loop().run_in_executor(self._executor, work, interruption)
        except BaseException as error:
            self._rotation.release()
            if isinstance(error, RuntimeError) and "start new thread" in str(error):
                # The executor has queued the work all the same, and a later thread would do it for no one.
                self.close()
                raise MemoryError(str(error)) from error
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
        """Return computations done in the thread, and those that wait for it."""
        return {"computed": self._done, "computations_waiting": self._rotation.waiting}

    def _ended(self, done: asyncio.Future[T]) -> None:
        if not done.cancelled():
            done.exception()  # retrieved also where the caller was cancelled
        self._done += 1
        self._rotation.release()


class ComputeProcess:
    """Computations in forks of this process, one at a time. Owners take turns.

    A fork has all objects of this process without a copy; the system copies the pages that it writes. Its garbage and
    its memory end with it, and it can be ended at any moment. A result must be picklable, and no other process sees
    what the work changes. For systems on which forks of a process with threads are sound, such as Linux.
    """

    def __init__(self, still: Callable[[], AbstractAsyncContextManager[object]] = nullcontext) -> None:
        """Within ``still`` no other thread of this process computes. A lock that it holds in the moment of the fork
        would be locked for ever in the new process."""
        self._still = still
        self._rotation = _Rotation()

    async def run(self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "") -> T:
        """Return what ``work`` returns, from a process. Its ``seconds`` begin when the process begins.

        If the caller is cancelled, the process ends.

        Raises:
            DeadlineExceeded: ``seconds`` were not enough.
            ComputationLost: the process has ended without a result.
        """
        await self._rotation.acquire(owner)
        try:
            async with self._still():
                pid, pipe = _forked(work, seconds)
            try:
                async with asyncio.timeout(seconds + _GRACE_SECONDS):
                    sent = await _all_of(pipe)
            except TimeoutError as error:
                raise DeadlineExceeded(seconds) from error
            finally:
                await _end(pid)
        finally:
            self._rotation.release()
        if not sent:
            raise ComputationLost("the process of the computation has ended without a result")
        outcome, value = pickle.loads(sent)
        if outcome == _TOO_LONG:
            raise DeadlineExceeded(seconds)
        if outcome == _FAILED:
            raise ComputationLost(value)
        result: T = value
        return result

    def close(self) -> None:
        """Do nothing: each process ends with its computation."""


_DONE, _TOO_LONG, _FAILED = range(3)


def _forked(work: Callable[[Interruption], object], seconds: float) -> tuple[int, int]:
    """Fork a process that computes. Return its number and the pipe in which its result arrives."""
    arriving, leaving = os.pipe()
    try:
        with warnings.catch_warnings():
            # Python warns of forks in a process with threads. `ComputeProcess` forks while no other thread computes.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError:
        os.close(arriving)
        raise
    else:
        if pid == 0:
            os.close(arriving)
            _compute(work, seconds, leaving)
    finally:
        os.close(leaving)
    return pid, arriving


def _compute(work: Callable[[Interruption], object], seconds: float, leaving: int) -> NoReturn:
    """Compute in a new process, write the outcome, and end. Nothing of the event loop may run here."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        # The process ends at its deadline even if it hangs, and the one that waits for it has gone.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 2 * _GRACE_SECONDS)
        # Work may run an event loop of its own, which Python refuses in a thread that runs one.
        asyncio.events._set_running_loop(None)
        # A collection would write to each object that exists, and so copy the memory of the whole process.
        gc.freeze()
        os.nice(_NICENESS)
        with open(leaving, "wb", closefd=False) as pipe:
            pipe.write(_outcome(work, seconds))
        code = 0
    finally:
        # Without the exit handlers and open files of the other process.
        os._exit(code)


def _outcome(work: Callable[[Interruption], object], seconds: float) -> bytes:
    try:
        return pickle.dumps((_DONE, work(Interruption(seconds))), protocol=5)
    except DeadlineExceeded:
        return pickle.dumps((_TOO_LONG, None))
    except Exception as error:
        return pickle.dumps((_FAILED, f"{type(error).__name__}: {error}"))


async def _all_of(pipe: int) -> bytes:
    """Return what arrives in a pipe until its end, and close it."""
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), FileIO(pipe, "rb"))
    try:
        return await reader.read()
    finally:
        transport.close()


async def _end(pid: int) -> None:
    """End a process, if it has not ended, and forget it."""
    os.kill(pid, signal.SIGKILL)
    # In a thread, because to free the memory of a large process takes some milliseconds.
    await asyncio.shield(asyncio.to_thread(os.waitpid, pid, 0))
