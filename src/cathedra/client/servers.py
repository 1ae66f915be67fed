"""The API servers of a cluster, of which a client uses one at a time.

client-go knows one address and leaves the choice among servers to a load balancer. A kubeconfig of Cathedra may name
several: then the one in use is probed every few seconds, and left for one that is ready when it does not answer, or
answers that it is not ready. A server that hangs or is cut off closes no connection. Therefore requests and watches
under way there are ended with `ServerLeft`.

Reads are sent again to the other server, and so are requests that were not sent because no connection could be made.
No other request is repeated: it is unknown whether a write that was sent has been carried out. Its caller reads the
object and decides, as after any lost connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from cathedra.api.status import StatusError

_LOG: Final = logging.getLogger(__name__)

INTERVAL: Final = 2.0
"""Seconds between two probes of the server in use."""
ANSWER_SECONDS: Final = 3.0
"""Time for the answer to a probe, with its connection. With the interval it is less than half of the ten seconds in
which a leader must renew its lease."""

LEAVE_SECONDS: Final = INTERVAL + ANSWER_SECONDS + 1.0
"""Time in which another server must be found for a request that could not be sent."""

Probe = Callable[[str], Awaitable[bool]]
"""Returns True if the server at a URL is ready."""


class ServerLeft(ConnectionError):
    """The server did not answer, and another one is used from now on. A request may have been carried out or not."""


class NotSent(ConnectionError):
    """No connection to the server could be made, so that the request was not sent."""


class Servers:
    """The URLs of a cluster's API servers, and the one in use: at first the first one."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)
        self.current = self._urls[0]
        """The URL of the server in use."""
        self.several = len(self._urls) > 1
        """True if there is another server to change to."""
        self._uses: set[asyncio.Timeout] = set()
        """Of the requests and watches that are under way at the server in use."""
        self._suspected = asyncio.Event()
        self._left = asyncio.Event()
        """Set, and replaced, when the server in use is left."""

    def using(self) -> ServerUse:
        """Return a context in which the server is used; its value is the URL. It ends with `ServerLeft`."""
        return ServerUse(self)

    def suspect(self, url: str) -> None:
        """Probe that server at once if it is in use: a connection to it has failed."""
        if url == self.current:
            self._suspected.set()

    async def await_other(self, url: str) -> bool:
        """Wait until another server than ``url`` is in use. Return False if none is ready in time."""
        if not self.several:
            return False
        self.suspect(url)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                while self.current == url:
                    await self._left.wait()
        return self.current != url

    async def follow(self, probe: Probe) -> None:
        """Probe the server in use, and change to one that is ready when it is not; until cancelled."""
        while True:
            # Cleared before the probe: a failure during it leads to another one.
            self._suspected.clear()
            if not await probe(self.current) and (ready := await self._first_ready(probe)):
                self._leave(ready)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._suspected.wait()

    async def _first_ready(self, probe: Probe) -> str:
        """Return the URL of the other server that answers first; "" if none is ready."""

        async def probed(url: str) -> str:
            return url if await probe(url) else ""

        probes = [asyncio.create_task(probed(url)) for url in self._urls if url != self.current]
        try:
            for one in asyncio.as_completed(probes):
                if url := await one:
                    return url
            return ""
        finally:
            for task in probes:
                task.cancel()
            await asyncio.gather(*probes, return_exceptions=True)

    def _leave(self, following: str) -> None:
        _LOG.warning("the API server at %s does not answer or is not ready; using %s", self.current, following)
        self.current = following
        self._left.set()
        self._left = asyncio.Event()
        uses, self._uses = self._uses, set()
        now = asyncio.get_running_loop().time()
        for use in uses:
            # Ends the use as an expired time limit would: the task is cancelled at its present await.
            use.reschedule(now)


class ServerUse:
    """One request or watch at the server in use."""

    __slots__ = ("_limit", "_servers", "_url")

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._limit: asyncio.Timeout | None = None

    async def __aenter__(self) -> str:
        """Return the URL of the server in use."""
        servers = self._servers
        self._url = servers.current
        # A client of one server pays nothing for the possibility of others.
        if servers.several:
            self._limit = asyncio.timeout(None)
            await self._limit.__aenter__()
            servers._uses.add(self._limit)
        return self._url

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise `ServerLeft` if the server has been left meanwhile."""
        limit = self._limit
        if limit is None:
            return
        self._servers._uses.discard(limit)
        try:
            await limit.__aexit__(kind, error, trace)  # type: ignore[arg-type]  # a traceback, which is passed on
        except TimeoutError as expired:
            raise ServerLeft(f"{self._url}: the API server does not answer; another one is used now") from expired
        # Whatever went wrong on the connection: libraries have errors of their own. A refusal is an answer.
        if isinstance(error, Exception) and not isinstance(error, StatusError):
            self._servers.suspect(self._url)
