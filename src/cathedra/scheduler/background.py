"""Work that goes on while the next pod is tried: bindings and status patches.

One task group owns every task, and a limit keeps the API server from being asked for everything at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from cathedra.scheduler.framework.defects import DEFECTS, defect_status

__all__ = ["Background"]

_LOG = logging.getLogger(__name__)


class Background:
    """Tasks of one scheduler. Leaving the context cancels what still runs."""

    def __init__(self, limit: int) -> None:
        """``limit``: how many may write to the API at the same time."""
        self.writing = asyncio.Semaphore(limit)
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Background:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(*failure)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` beside everything else; nothing is begun any more once the context is being left."""
        if self._closed:
            work.close()
            return
        task = self._group.create_task(_contained(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_closing(self) -> bool:
        """Whether the context is being left: nothing that is to be done later will be done."""
        return self._closed

    @property
    def running(self) -> int:
        """How many tasks have not ended."""
        return len(self._tasks)


async def _contained(work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``; a defect in it is logged and ends nothing but itself."""
    try:
        await work
    except DEFECTS as defect:
        defect_status(defect, _LOG, "work in the background broke")
