"""The terminal of a command, taken over from the container runtime that makes it.

A runtime that keeps the terminal for itself passes a new size on only while it handles SIGWINCH: a size that is set
before then is lost. With the terminal in the agent's own hands, a size holds from the moment it is set, and input that
is written afterwards finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from cathedra.node.concurrency import readable

__all__ = ["ConsoleSocket"]

_MESSAGE: Final = 4096
"""Bytes of the longest message that a runtime sends with a terminal: its name."""


class ConsoleSocket:
    """A socket at which a runtime hands over one terminal (crun's ``--console-socket``); a context manager."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="cathedra-console-"))
        self.path = self._directory / "socket"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> ConsoleSocket:
        try:
            self._listening.bind(str(self.path))
            self._listening.listen()
            self._listening.setblocking(False)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the socket."""
        self._listening.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    async def terminal(self, runtime: asyncio.subprocess.Process) -> int | None:
        """The file descriptor of the terminal's master; None if ``runtime`` ended without handing one over."""
        async with asyncio.TaskGroup() as group:
            receiving = group.create_task(self._receive())
            ending = group.create_task(runtime.wait())
            # A terminal that was sent before the end is still received after it.
            ending.add_done_callback(self._expect_no_more)
            try:
                return await receiving
            finally:
                ending.cancel()

    def _expect_no_more(self, _: asyncio.Task[int]) -> None:
        """Stand behind the runtime in the queue of connections, and hang up."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.setblocking(False)
            last.connect(str(self.path))

    async def _receive(self) -> int | None:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        with connection:
            await readable(connection.fileno())
            _, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE, 1, socket.MSG_DONTWAIT)
        return descriptors[0] if descriptors else None
