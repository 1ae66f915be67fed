"""Work that goes on while the next pod is tried: bindings and status patches.

One task group owns every task, and a limit keeps the API server from being asked for everything at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Background"]


class Background:
    """Tasks of one scheduler. Leaving the context cancels what still runs."""

    def __init__(self, limit: int) -> None:
        """``limit``: how many may write to the API at the same time."""
        self.writing = asyncio.Semaphore(limit)
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Background:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(*failure)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` beside everything else."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def running(self) -> int:
        """How many tasks have not ended."""
        return len(self._tasks)
