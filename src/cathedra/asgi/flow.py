"""Back-pressure of one connection, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["WriteFlow"]


class WriteFlow:
    """Whether a connection is read from, and whether its client takes what it is sent."""

    __slots__ = ("_read_paused", "_transport", "_writable", "callback", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._read_paused = False
        self._writable: asyncio.Event | None = None
        self.write_paused = False
        self.callback: Callable[[], None] | None = None
        """Called when the client takes again what it is sent."""

    async def drain(self) -> None:
        """Wait until the client takes what it is sent."""
        if not self.write_paused:
            return
        if self._writable is None:
            self._writable = asyncio.Event()
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Take no more from the client for now."""
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take from the client again."""
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The client leaves lying what it is sent."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """The client has taken most of what was sent."""
        if not self.write_paused:
            return
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if self.callback is not None:
            self.callback()
