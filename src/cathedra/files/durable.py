"""Durable replacement of a file from an event loop, without blocking it.

A sync takes milliseconds on a good disk and seconds on a bad one, and the loop of a node serves all its pods. The write
therefore runs in a thread. Writes of one file are ordered, and those that wait while one runs become one: the file has
the latest content, so earlier ones need not reach the disk (group commit).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from cathedra.files.atomic import write_durable


class DurableFile:
    """A file that one event loop writes; each write replaces the whole content."""

    def __init__(self, path: Path, *, mode: int = 0o600) -> None:
        self.path = path
        self._mode = mode
        self._turn = asyncio.Lock()
        self._content = b""
        self._wanted = 0
        self._written = 0

    async def write(self, content: bytes) -> None:
        """Replace the file; on return this content or a later one survives a power failure.

        A call that is cancelled while its write is under way ends when that has ended: nothing is written after it.

        Raises:
            OSError: it cannot be written; calls that waited with this one try again, each for itself.
        """
        self._content = content
        self._wanted += 1
        mine = self._wanted
        # One write at a time. Two threads that rename in the wrong order would leave the older content on disk.
        async with self._turn:
            # Another call has written this content, or later content, while this one waited for its turn.
            if self._written >= mine:
                return
            # Everything that was wanted until now is in `_content`, and done with this one write.
            number = self._wanted
            await _completed(asyncio.get_running_loop().run_in_executor(None, self._replace, self._content))
            # Only after the thread has succeeded. After an error the calls that wait write again, each for itself.
            self._written = number

    def _replace(self, content: bytes) -> None:
        write_durable(self.path, content, mode=self._mode)


async def _completed(thread: asyncio.Future[None]) -> None:
    """Wait until the thread has ended; only then pass a cancellation on."""
    cancelled: asyncio.CancelledError | None = None
    # A thread cannot be cancelled. If the call returned before it, the next write could be overtaken by this one.
    while not thread.done():
        try:
            await asyncio.wait((thread,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    thread.result()
