"""The transport to an API server at a URL: the binary protocol where the server has it, and HTTP for everything else.

A session is asked for with the first request, and again with each connection; a server that has none is asked again
after a minute, and spoken to over HTTP until then. What sessions do not serve, as scales and aggregated APIs, is asked
over HTTP. Nothing above can tell, but by the time that it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from cathedra import __version__
from cathedra.api.status import StatusError
from cathedra.client.http import LONGEST_PAUSE, RETRIES, HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.local.connection import ConnectionRetired, ProtocolRefused
from cathedra.client.local.transport import LocalTransport
from cathedra.client.local.upgraded import UpgradedConnection
from cathedra.client.transport import APICall, Transport, WatchEvent

__all__ = ["UpgradingTransport"]

REFUSED_SECONDS: Final = 60.0
"""For which a server that refused is not asked again."""
_BUSY: Final = frozenset({429, 500, 503, 504})
"""Refusals that may say when to ask again."""


class UpgradingTransport:
    """The Kubernetes API of one server, as one user. Whatever opened ``http`` closes it; `close` ends sessions."""

    def __init__(self, http: HTTPTransport, target: Target, *, agent: str) -> None:
        self._http = http
        self._target = target
        self._agent = agent
        self._session: tuple[UpgradedConnection, LocalTransport] | None = None
        self._refused_until = 0.0

    async def call(self, call: APICall) -> Any:
        """Carry out a call over the session, if there is one that serves it, and else over HTTP.

        Raises:
            StatusError: the server refuses, also after the retries that it asked for.
            ConnectionError: it cannot be reached.
        """
        if call.options.query:
            return await self._http.call(call)  # a message has no place for further parameters of a URL
        attempt = 0
        while True:
            way = self._way()
            try:
                return await way.call(call)
            except ProtocolRefused:
                self._refuse()
                return await self._http.call(call)
            except ConnectionRetired:
                continue  # the call was not begun: the next session carries it out
            except StatusError as error:
                if way is self._http:
                    raise
                if _unserved(error):
                    return await self._http.call(call)
                pause = _pause(error)
                attempt += 1
                if attempt > RETRIES or not pause:
                    raise
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until the server ends the stream."""
        async with AsyncExitStack() as opened:
            begun: AsyncIterator[WatchEvent[Any]] | None = None
            while begun is None:
                way = self._way()
                try:
                    begun = await opened.enter_async_context(way.watch(call))
                except ProtocolRefused:
                    self._refuse()
                except ConnectionRetired:
                    continue  # the session ended before the watch began: the next one carries it
            yield begun if way is self._http else self._events(begun, call)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path of the server, and the bytes it answers with."""
        return await self._http.get_raw(path, query)

    async def close(self) -> None:
        """End the session; HTTP stays open."""
        if self._session is not None:
            self._session[0].close()
            self._session = None

    async def _events(self, events: AsyncIterator[WatchEvent[Any]], call: APICall) -> AsyncIterator[WatchEvent[Any]]:
        """Yield the events of a session's watch; of one over HTTP if sessions do not serve the resource."""
        try:
            async for event in events:
                yield event
            return
        except ConnectionRetired:
            return  # it ended before it began: the next one goes over another connection
        except StatusError as error:
            if not _unserved(error):
                raise
        async with self._http.watch(call) as others:
            async for event in others:
                yield event

    def _way(self) -> Transport:
        """What to ask: the session, unless the server has none."""
        session = self._session
        if session is not None and not session[0].retiring:
            return session[1]
        tls = self._http.tls
        if tls is None or asyncio.get_running_loop().time() < self._refused_until:
            return self._http
        connection = UpgradedConnection(
            self._target.server,
            tls,
            server_name=self._target.tls_server_name or None,
            agent=f"{self._agent}/{__version__}",
            authorization=self._http.authorization,
            denials=self._http.denials,
        )
        self._session = connection, LocalTransport(connection, "", agent=f"{self._agent}/{__version__}")
        return self._session[1]

    def _refuse(self) -> None:
        """Speak HTTP for a while."""
        self._session = None
        self._refused_until = asyncio.get_running_loop().time() + REFUSED_SECONDS


def _unserved(error: StatusError) -> bool:
    """Whether there is no such resource in sessions, rather than no such object: nothing was done."""
    return error.code == 404 and error.status.details is None


def _pause(error: StatusError) -> float:
    """Seconds after which the server wants to be asked again; 0: it does not say so."""
    details = error.status.details
    if error.code not in _BUSY or details is None:
        return 0.0
    return min(float(details.retry_after_seconds), LONGEST_PAUSE)
