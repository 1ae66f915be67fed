"""What the connections of one listener share: the application, the date of answers, and who is still there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from cathedra.asgi.application import Receive, Scope, Send

__all__ = ["Application", "OpenConnections", "Serving", "http_date"]

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class OpenConnections:
    """The protocols of connections that are open, as a set that can be waited for."""

    def __init__(self) -> None:
        self._open: set[Any] = set()
        self._none = asyncio.Event()
        self._none.set()

    def __contains__(self, connection: object) -> bool:
        return connection in self._open

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Any) -> None:
        """One more."""
        self._open.add(connection)
        self._none.clear()

    def discard(self, connection: Any) -> None:
        """One less."""
        self._open.discard(connection)
        if not self._open:
            self._none.set()

    remove = discard

    async def wait_none(self) -> None:
        """Wait until there is none."""
        await self._none.wait()


class Serving:
    """An application that is being served. WebSockets are uvicorn's, which finds what it needs under these names."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.connections = OpenConnections()
        self.tasks: set[asyncio.Task[None]] = set()
        self.date_line = b""
        """The line of the date in the head of every answer, made anew each second."""
        self.default_headers: list[tuple[bytes, bytes]] = []

    def set_date(self, now: float) -> None:
        """Answers have this date from now on (epoch seconds)."""
        date = http_date(now)
        self.date_line = b"date: %b\r\n" % date
        self.default_headers = [(b"date", date)]


def http_date(now: float) -> bytes:
    """A time (epoch seconds) as HTTP writes it (RFC 9110, section 5.6.7), whatever the locale is."""
    at = time.gmtime(now)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return (
        f"{day}, {at.tm_mday:02} {month} {at.tm_year:04} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
    ).encode()
