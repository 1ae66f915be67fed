"""Event loop in real time that can be advanced: sockets work as usual, and an hour passes when a test advances the
clock.

Time moves from one timer to the next, and only when nothing is ready to run, so timers fire in their order (compare
`cathedra.clock.VirtualTimeLoop`, which never waits and therefore serves no sockets).
"""

from __future__ import annotations

import asyncio
import selectors


class _AdvancingSelector(selectors.DefaultSelector):
    """Selector that skips idle time by advancing the clock while there is time to skip; else it waits as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = 0.0
        self.left = 0.0
        self.hurries = False
        self.arrived: asyncio.Future[None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 or (self.arrived is None and not (self.hurries and timeout)):
            return super().select(timeout)
        ready = super().select(0)
        if ready:
            return ready
        if self.arrived is None:
            self.moved += timeout or 0.0
            return ready
        if self.left <= 0:
            # All timers that were due have run.
            self.arrived.set_result(None)
            self.arrived = None
            return ready
        step = self.left if timeout is None else min(self.left, timeout)
        self.moved += step
        self.left -= step
        return ready


class AdvanceableLoop(asyncio.SelectorEventLoop):
    """Event loop whose time is the machine's plus what `advance` has added."""

    def __init__(self) -> None:
        self._advancing = _AdvancingSelector()
        super().__init__(self._advancing)

    def time(self) -> float:
        """Seconds of the machine's monotonic clock and of those that were added."""
        return super().time() + self._advancing.moved

    def hurry(self) -> None:
        """Wait for no timer any more: what is left to do, as stopping, should take no time."""
        self._advancing.hurries = True

    async def advance(self, seconds: float) -> None:
        """Advance the clock by ``seconds``; return when all timers due by then have run.

        Raises:
            ValueError: time does not run backwards.
            RuntimeError: it is being advanced already.
        """
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds}")
        if self._advancing.arrived is not None:
            raise RuntimeError("the time of this cluster is being advanced already")
        self._advancing.left = seconds
        self._advancing.arrived = self.create_future()
        await self._advancing.arrived
