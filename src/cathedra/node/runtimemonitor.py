"""Whether the container runtime can run pods: what makes a node not ready, and ready again.

As a kubelet does, it is asked every five seconds, because no runtime tells it by itself; one that has not answered for
half a minute counts as down. Texts are the kubelet's (``pkg/kubelet/runtime.go``; docs/spec/node.md §17.11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.clock import Clock
from cathedra.node.runtime.runtime import RuntimeFailure

__all__ = ["DOWN", "RuntimeMonitor"]

DOWN: Final = "container runtime is down"
PERIOD: Final = 5.0
"""Seconds between two looks."""
PATIENCE: Final = 30.0
"""Seconds for which a runtime may be silent."""


class RuntimeMonitor:
    """Asks ``status`` of a runtime, and keeps what is wrong with it."""

    def __init__(self, status: Callable[[], Awaitable[tuple[str, ...]]], clock: Clock) -> None:
        self._status = status
        self._clock = clock
        self._errors: tuple[str, ...] = ()
        self._changed = asyncio.Event()

    @property
    def message(self) -> str:
        """What is wrong, as the node's condition says it; "" if nothing."""
        return self._errors[0] if len(self._errors) == 1 else f"[{', '.join(self._errors)}]" if self._errors else ""

    async def wait_changed(self) -> None:
        """Wait until something else is wrong, or nothing any more."""
        await self._changed.wait()

    async def run(self) -> None:
        """Ask until cancelled."""
        answered = self._clock.monotonic()
        while True:
            await self._clock.sleep(PERIOD)
            try:
                errors = await self._status()
                answered = self._clock.monotonic()
            except RuntimeFailure:
                errors = (DOWN,) if self._clock.monotonic() - answered > PATIENCE else self._errors
            if errors != self._errors:
                self._errors = errors
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
