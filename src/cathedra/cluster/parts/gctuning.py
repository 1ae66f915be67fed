"""Configuration of Python's cyclic garbage collector for a process that holds a cluster's state.

By default the collector runs whenever the number of objects has grown by a few hundred. In an API server nearly all of
these were just stored and are no garbage: traversing the heap for them costs a quarter of a write's time and blocks
every request for 100 ms now and then. Hardly anything here is cyclic, so garbage can wait.

The number of objects is no measure of memory: ten objects in a cycle may hold a hundred megabytes. `MemoryWatch`
therefore also collects when the process has grown, and then returns freed memory to the system. What remains it moves
to huge pages.

A collection of all objects stops a server with 10,000 nodes for a second or two. Objects that have survived two
younger ones are therefore exempt (`gc.freeze`) until the process is three times as large (`MemoryWatch`).
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from cathedra.clock import Clock
from cathedra.memory import resident_bytes, return_freed, use_huge_pages

YOUNG: Final = 12_500
"""New objects between two collections; 700 in Python's own setting. Some 3 MiB at most wait for theirs. Twice as many
save no instructions, and stop the process for twice as long."""
MIDDLE: Final = 2
"""Collections of new objects between two that include those which survived the first; ten in Python's own setting.
The second kind stops the process for 0.4 to 0.9 ms for each thousand objects, on a busy machine for 2 ms: 30 or 80 ms
for three times `YOUNG`."""
LOOK_SECONDS: Final = 1.0
LATER_SECONDS: Final = (5.0, 10.0, 20.0, 40.0)
"""From the last growth, and from each time to the next."""
YOUNG_GROWTH: Final = 64 * 1024 * 1024
"""Growth in bytes after which younger objects are collected: half a million at most, some 50 ms."""
FULL_GROWTH: Final = 256 * 1024 * 1024
"""Bytes by which it grows before all objects are that are not exempt; half of what it had, if that is more."""
EXEMPT_GROWTH: Final = 512 * 1024 * 1024
"""Growth in bytes after which exempt objects are collected, too; twice what the process had, if that is more. A server
with 10,000 nodes grows from 0.7 to 1.9 GiB by its controllers, its agents and the answers that it keeps."""
MOVED_GROWTH: Final = 32 * 1024 * 1024
"""Growth in bytes after which new memory is moved to huge pages: 10 to 100 ms of a thread beside the loop."""
SETTLED_GROWTH: Final = 8 * 1024 * 1024
"""Growth in bytes from one look to the next up to which a process counts as settled, and memory is moved."""
EVERYTHING: Final = 3
"""Denotes the oldest generation with exempt objects."""


def suspend_collection() -> None:
    """Collect no cycles while a process starts: objects of imports and set-up live as long as the process."""
    gc.disable()


def tune_collection() -> None:
    """Exclude existing objects from collection, and collect in larger steps. Called once, when a process begins its
    service.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, 10)
    gc.enable()


class _Suspension:
    """Suspends automatic collection while at least one thread needs that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if not self._blocks:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._blocks += 1

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            # The collector is one for all threads: the first block that ends must not enable it within another.
            if not self._blocks and self._was_enabled:
                gc.enable()


_SUSPENSION: Final = _Suspension()


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend automatic collection as long as the block lasts. Blocks of several threads may overlap.

    For work of seconds whose objects live until its end, so that a collection examines all of them and frees nothing.
    """
    _SUSPENSION.begin()
    try:
        yield
    finally:
        _SUSPENSION.end()


@asynccontextmanager
async def collected_by_memory(clock: Clock, young_share: float = 1.0) -> AsyncIterator[None]:
    """`tune_collection`, and collect also when this process grows, as long as the block lasts.

    Younger objects are collected after a growth by ``young_share`` of what the process had, or by `YOUNG_GROWTH`.
    """
    tune_collection()
    gc.callbacks.append(_exempt_survivors)
    watching = asyncio.create_task(MemoryWatch(young_share=young_share).run(clock), name="memory watch")
    try:
        yield
    finally:
        gc.callbacks.remove(_exempt_survivors)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _exempt_survivors(phase: str, info: dict[str, int]) -> None:
    """Exempt objects that have survived two collections from the next one.

    Left in the oldest generation, objects of a large cluster that is being loaded would be examined by the hundred
    thousand at once.
    """
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


def collect(generation: int) -> None:
    """Collect a generation and the younger ones; with `EVERYTHING` also objects that were exempt."""
    # Cycles among exempt objects would otherwise stay for ever.
    if generation == EVERYTHING:
        gc.unfreeze()
    gc.collect(min(generation, 2))


class MemoryWatch:
    """Collects garbage when a process has grown."""

    def __init__(
        self,
        resident: Callable[[], int] | None = None,
        collect: Callable[[int], object] = collect,
        *,
        young_share: float = 1.0,
    ) -> None:
        """``resident`` returns the process's memory in bytes; ``collect`` is as the function above. ``young_share`` is
        as in `collected_by_memory`.
        """
        self._young_share = young_share
        self._resident = resident or resident_bytes
        self._collect = collect
        self._after_young = self._after_full = self._after_everything = self._resident()
        self._before = self._after_young
        """Bytes before the last growth."""
        self._later: list[float] = []
        """Seconds until freed memory is given back again, the next time last."""
        self._after_move = 0

    async def run(
        self,
        clock: Clock,
        give_back: Callable[[], None] = return_freed,
        move: Callable[[], None] = use_huge_pages,
    ) -> None:
        """Look once a second, until cancelled. ``give_back`` returns freed memory to the system, and ``move`` uses huge
        pages for the rest.

        Growth is seen while its cause lasts. So freed memory is given back again `LATER_SECONDS` after the last growth,
        when the connections or requests that needed it may have ended, until the process is about as small as before.
        """
        held = 0
        while True:
            await clock.sleep(LOOK_SECONDS)
            if self._is_time():
                await asyncio.to_thread(give_back)
                self.note()
            held, former = self._resident(), held
            # Not while it grows: what is freed and allocated again would be moved again.
            if held - self._after_move > MOVED_GROWTH and held - former < SETTLED_GROWTH:
                await asyncio.to_thread(move)
                self._after_move = held = self._resident()

    def _is_time(self) -> bool:
        """Collect after a growth, and again later. Return True if that may have freed memory."""
        before = self._after_young
        if self.look():
            if not self._later:
                self._before = before
            self._later = list(reversed(LATER_SECONDS))
            return True
        if self._is_later():
            self._collect(1)
            return True
        return False

    def _is_later(self) -> bool:
        """Return True if it is time again after the last growth, and the process is still larger than before."""
        if not self._later:
            return False
        self._later[-1] -= LOOK_SECONDS
        if self._later[-1] > 0:
            return False
        self._later.pop()
        if self._resident() - self._before > self._young_growth() / 4:
            return True
        self._later.clear()
        return False

    def look(self) -> bool:
        """Collect if the process has grown much since the last time. Return True if it did."""
        held = self._resident()
        self._note(held)
        # A server grows by objects that stay, when it is loaded or the cluster grows. To examine all of them would stop
        # it for a second for nothing. Garbage among exempt objects is rare, so it waits.
        if held - self._after_everything > max(EXEMPT_GROWTH, self._after_everything * 2):
            self._collect(EVERYTHING)
            self._after_young = self._after_full = self._after_everything = self._resident()
            return True
        if held - self._after_full > max(FULL_GROWTH, self._after_full // 2):
            self._collect(2)
            self._after_young = self._after_full = self._resident()
            return True
        if held - self._after_young > self._young_growth():
            self._collect(1)
            self._after_young = self._resident()
            return True
        return False

    def _young_growth(self) -> float:
        return min(YOUNG_GROWTH, self._after_young * self._young_share)

    def note(self) -> None:
        """Count growth from here on, where freed memory was given back."""
        self._note(self._resident())

    def _note(self, held: int) -> None:
        self._after_young, self._after_full = min(self._after_young, held), min(self._after_full, held)
        self._after_everything = min(self._after_everything, held)
        self._after_move = min(self._after_move, held)
