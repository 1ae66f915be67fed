"""The queue between events and reconcilers, with client-go's guarantees.

A key that is added twice is processed once. A key that is added while it is processed is processed again afterwards,
never by two workers at a time. A key that fails is retried after a delay that doubles. The queue holds keys only: a
reconciler reads the current state when it processes a key (docs/spec/controllers.md §1).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from cathedra.api.status import StatusError
from cathedra.client.backoff import ItemBackoff, TokenBucket
from cathedra.clock import Clock

if TYPE_CHECKING:
    from cathedra.client.queuemetrics import QueueObserver

K = TypeVar("K", bound=Hashable)

_LOG: Final = logging.getLogger(__name__)
TURN_KEYS: Final = 20
"""Keys after which a worker lets other tasks run."""


class QueueShutDown(Exception):
    """The queue returns no more keys."""


class NotRetryable(Exception):
    """Trying again would change nothing: the key waits for its next event."""


class RetryLater(Exception):
    """Not done yet, for a reason that was reported already or is no fault: the key is retried with back-off."""


class WorkQueue(Generic[K]):
    """Keys to work on. Belongs to one event loop."""

    def __init__(
        self,
        clock: Clock,
        *,
        base_delay: float = 0.005,
        max_delay: float = 1000.0,
        rate: float = 10.0,
        burst: int = 100,
        observer: QueueObserver | None = None,
    ) -> None:
        """Delays in seconds; ``rate`` and ``burst`` bound the retries of all failing keys together.

        ``observer`` counts what happens to keys.
        """
        self._observer = observer
        self._backoff: ItemBackoff[K] = ItemBackoff(base=base_delay, maximum=max_delay)
        self.failing = self._backoff.failing
        """Retried keys, with the number of retries since their last reset."""
        self._bucket = TokenBucket(clock, rate=rate, burst=burst)
        self._queue: deque[K] = deque()
        self._due: dict[K, bool] = {}
        """Keys that are queued or in work. False: in work, and not added since that began."""
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False

    def __len__(self) -> int:
        """Return the number of keys that are ready."""
        return len(self._queue)

    def add(self, key: K) -> None:
        """Queue ``key`` for the next free worker."""
        due = self._due.get(key)
        # Keys that are due wait already. This is what merges many events about one object into one reconciliation.
        if due or self._shut_down:
            return
        self._due[key] = True
        if self._observer is not None:
            self._observer.added(key)
        # It is in work, and `done` queues it: two workers must never reconcile one key at the same time.
        if due is False:
            return
        self._queue.append(key)
        if self._getters:
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue ``key`` after ``seconds``; of several delays the shortest counts."""
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        waiting = self._timers.get(key)
        if waiting is not None:
            # A retry must not delay a key that is due earlier for another reason.
            if waiting.when() <= due:
                return
            waiting.cancel()
        # One timer per key. Several would add the key again after it was processed by the first.
        self._timers[key] = loop.call_at(due, self._add_delayed, key)

    def add_rate_limited(self, key: K) -> None:
        """Queue ``key`` again after a failure, when its back-off and the common rate allow it."""
        if self._observer is not None:
            self._observer.retried()
        # The larger of both: the bucket protects the server when many keys fail at once, as during an outage.
        self.add_after(key, max(self._backoff.delay(key), self._bucket.reserve()))

    def add_after_conflict(self, key: K) -> None:
        """Queue ``key`` again after another writer was faster, when its own back-off allows it.

        The common rate protects a server that fails. A conflict shows a server that works, and a key that was out of
        date for a moment: beyond the burst, ten keys a second would get their turn, and the last of a thousand waits
        for minutes.
        """
        if self._observer is not None:
            self._observer.retried()
        self.add_after(key, self._backoff.delay(key))

    def forget(self, key: K) -> None:
        """``key`` succeeded: its next failure starts with the shortest delay."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """Return the number of retries of ``key`` since its last reset."""
        return self._backoff.failures(key)

    async def get(self) -> K:
        """Return the next key, and wait while there is none. The caller must call `done` for it.

        Raises:
            QueueShutDown: the queue was shut down.
        """
        while not self._queue:
            if self._shut_down:
                raise QueueShutDown
            # In a loop: another worker may take the key between the wake-up and this task's turn.
            getter: asyncio.Future[None] = asyncio.Future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # A wake-up that reached a worker in the moment it was cancelled belongs to the next one.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise
        key = self._queue.popleft()
        # Before the work: a change during the work makes the key due again, and it is processed once more.
        self._due[key] = False
        if self._observer is not None:
            self._observer.taken(key)
        return key

    def done(self, key: K) -> None:
        """Work on ``key`` has ended, well or not; if it was added meanwhile it is queued now."""
        again = self._due.pop(key)
        if self._observer is not None:
            self._observer.done(key)
        # Queued only now, so that the next worker sees the state after this one's writes.
        if again and not self._shut_down:
            self._due[key] = True
            self._queue.append(key)
            self._wake_one()

    def shut_down(self) -> None:
        """Return no more keys, and drop those that wait."""
        self._shut_down = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for key in self._queue:
            del self._due[key]
        self._queue.clear()
        while self._getters:
            self._wake_one()

    @property
    def idle(self) -> bool:
        """Return True if nothing is queued or worked on; delayed keys do not count."""
        return not self._due

    def _add_delayed(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


@contextmanager
def one_of_many(log: logging.Logger, text: str, *about: object) -> Iterator[None]:
    """Log the failure of one of many objects, and continue the loop: the next round tries again.

    For loops without a queue; `run_workers` does the same for each key.
    """
    try:
        yield
    except (StatusError, ConnectionError) as error:
        log.debug(f"{text}: %s", *about, error)
    except Exception:
        log.exception(text, *about)


async def run_workers(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]], *, workers: int = 1
) -> None:
    """Process the queue with several workers until cancelled; the queue is shut down then.

    ``reconcile`` returns None, or the seconds after which its key is processed again. A key whose reconciler raises is
    retried with back-off, except after `NotRetryable`.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(_work(queue, reconcile))
    finally:
        # The timers belong to the loop and would otherwise add keys to a queue that no worker reads.
        queue.shut_down()


async def _work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]]) -> None:
    for number in count(1):
        # Most reconcilers find nothing to do, and do not suspend. With 100,000 keys after a list, a worker would stop
        # the API server in the same process for a second.
        if number % TURN_KEYS == 0:
            await asyncio.sleep(0)
        try:
            key = await queue.get()
        except QueueShutDown:
            return
        try:
            again = await reconcile(key)
        # Its back-off is forgotten, too: the next event is a new beginning.
        except NotRetryable as error:
            _LOG.warning("%s: not retried: %s", key, error)
            queue.forget(key)
        except (StatusError, ConnectionError, RetryLater) as error:
            _LOG.debug("%s: tried again later: %s", key, error)
            if isinstance(error, StatusError) and error.is_conflict:
                queue.add_after_conflict(key)
            else:
                queue.add_rate_limited(key)
        except Exception:
            # One key that hits a defect must not stop the others; it is reported and retried like any failure.
            _LOG.exception("%s: reconciling failed", key)
            queue.add_rate_limited(key)
        else:
            # The test avoids a call for the usual case, a key without failures (hot path: every reconciliation).
            if key in queue.failing:
                queue.forget(key)
            if again is not None:
                queue.add_after(key, again)
        finally:
            queue.done(key)
