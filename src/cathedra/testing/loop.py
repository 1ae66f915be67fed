"""An event loop in real time that can be moved on: sockets work as ever, and an hour passes when a test says so.

Time is moved from one timer to the next, and only when nothing is ready to run, so whatever is due in between happens
in its order (compare `cathedra.clock.VirtualTimeLoop`, which never waits and therefore serves no sockets).
"""

from __future__ import annotations

import asyncio
import selectors

__all__ = ["AdvanceableLoop"]


class _AdvancingSelector(selectors.DefaultSelector):
    """Passes as much idle time as it is told to by moving the clock; else it waits like any other."""

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
            # Everything that was due has run.
            self.arrived.set_result(None)
            self.arrived = None
            return ready
        step = self.left if timeout is None else min(self.left, timeout)
        self.moved += step
        self.left -= step
        return ready


class AdvanceableLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the machine's plus what `advance` has added."""

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
        """Let so many seconds pass; returns when everything that was due by then has run.

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
