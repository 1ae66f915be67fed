"""One prepare or unprepare call at a time.

Within a process a lock is enough. During a rolling update two processes serve the same node, and then a file lock keeps
them apart; its name and place are those of the Go helper, so that a Go and a Python instance exclude each other too
(docs/spec/driver-sdk.md §7).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from cathedra.clock import Clock

__all__ = ["LOCK_FILE", "FileLock", "NoLock", "ProcessLock", "Serializer"]

LOCK_FILE = "serialize.lock"

_POLL = 0.02


class Serializer(Protocol):
    """Whatever lets calls in."""

    def held(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait for the turn; it ends with the context."""
        ...


class NoLock:
    """Calls run side by side; the driver looks after itself."""

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Enter at once."""
        yield


class ProcessLock:
    """One call at a time in this process."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the calls that came before."""
        async with self._lock:
            yield


class FileLock:
    """One call at a time among all processes that use the directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._path = directory / LOCK_FILE
        self._clock = clock
        self._process = ProcessLock()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the calls that came before, here and in the other process."""
        async with self._process.held():
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # The kernel announces a free lock only to a thread that blocks on it, and such a thread could not be
                # cancelled with the call. Contention lasts for one call during an update, so asking again is cheap.
                while not _try_lock(descriptor):
                    await self._clock.sleep(_POLL)
                yield
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
