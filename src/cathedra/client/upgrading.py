"""The transport to an API server at a URL: the binary protocol where the server has it, and HTTP for everything else.

A session is asked for with the first request, and again with each connection; a server that has none is asked again
after a minute, and spoken to over HTTP until then. What sessions do not serve, as scales and aggregated APIs, is asked
over HTTP. Nothing above can tell, but by the time that it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from cathedra import __version__
from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject
from cathedra.api.status import StatusError
from cathedra.client.http import LONGEST_PAUSE, RETRIES, HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.local.connection import ConnectionRetired, ProtocolRefused
from cathedra.client.local.transport import LocalTransport
from cathedra.client.local.upgraded import UpgradedConnection
from cathedra.client.transport import (
    ListOptions,
    Page,
    PatchType,
    ResourceRef,
    Transport,
    WatchEvent,
    WriteOptions,
)

__all__ = ["UpgradingTransport"]

T = TypeVar("T", bound=KubeObject)
R = TypeVar("R")

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

    async def get(self, ref: ResourceRef[T], namespace: str, name: str, *, subresource: str = "") -> T:
        """One object."""
        return await self._asked(lambda way: way.get(ref, namespace, name, subresource=subresource))

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]:
        """The objects that match."""
        return await self._asked(lambda way: way.list(ref, namespace, options))

    @asynccontextmanager
    async def watch(
        self, ref: ResourceRef[T], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes, until the server ends the stream."""
        async with AsyncExitStack() as opened:
            begun: AsyncIterator[WatchEvent[T]] | None = None
            while begun is None:
                way = self._way()
                try:
                    begun = await opened.enter_async_context(way.watch(ref, namespace, options, bookmarks=bookmarks))
                except ProtocolRefused:
                    self._refuse()
                except ConnectionRetired:
                    continue  # it ended before it was used: the next one is another
            events = begun
            if way is not self._http:
                events = self._events(events, ref, namespace, options, bookmarks=bookmarks)
            yield events

    async def create(
        self,
        ref: ResourceRef[T],
        namespace: str,
        obj: KubeObject,
        options: WriteOptions,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Any:
        """Create an object, or POST to a sub-resource."""
        return await self._written(
            options, lambda way: way.create(ref, namespace, obj, options, name=name, subresource=subresource)
        )

    async def update(
        self, ref: ResourceRef[T], namespace: str, obj: T, options: WriteOptions, *, subresource: str = ""
    ) -> T:
        """Replace an object."""
        return await self._written(
            options, lambda way: way.update(ref, namespace, obj, options, subresource=subresource)
        )

    async def patch(
        self,
        ref: ResourceRef[T],
        namespace: str,
        name: str,
        patch_type: PatchType,
        body: Any,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> T:
        """Patch an object."""
        return await self._written(
            options,
            lambda way: way.patch(ref, namespace, name, patch_type, body, options, subresource=subresource),
        )

    async def delete(self, ref: ResourceRef[T], namespace: str, name: str, options: DeleteOptions) -> T | None:
        """Delete an object, or mark it."""
        return await self._asked(lambda way: way.delete(ref, namespace, name, options))

    async def delete_collection(
        self, ref: ResourceRef[T], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None:
        """Delete all objects that match."""
        await self._asked(lambda way: way.delete_collection(ref, namespace, list_options, options))

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path of the server, and the bytes it answers with."""
        return await self._http.get_raw(path, query)

    async def close(self) -> None:
        """End the session; HTTP stays open."""
        if self._session is not None:
            self._session[0].close()
            self._session = None

    async def _written(self, options: WriteOptions, ask: Callable[[Transport], Awaitable[R]]) -> R:
        return await (ask(self._http) if options.query else self._asked(ask))

    async def _asked(self, ask: Callable[[Transport], Awaitable[R]]) -> R:
        """The answer to a request, over the session if there is one that serves it.

        Raises:
            StatusError: the server refuses, also when asked again as often as it wished.
            ConnectionError: it cannot be reached.
        """
        attempt = 0
        while True:
            way = self._way()
            try:
                return await ask(way)
            except ProtocolRefused:
                self._refuse()
                return await ask(self._http)
            except ConnectionRetired:
                continue
            except StatusError as error:
                if way is self._http:
                    raise
                if _unserved(error):
                    return await ask(self._http)
                pause = _pause(error)
                attempt += 1
                if attempt > RETRIES or not pause:
                    raise
            await asyncio.sleep(pause)

    async def _events(
        self,
        events: AsyncIterator[WatchEvent[T]],
        ref: ResourceRef[T],
        namespace: str,
        options: ListOptions,
        *,
        bookmarks: bool,
    ) -> AsyncIterator[WatchEvent[T]]:
        """The events of a session's watch, or of one over HTTP where sessions do not serve it."""
        try:
            async for event in events:
                yield event
            return
        except ConnectionRetired:
            return  # it ended before it began: the next one goes over another connection
        except StatusError as error:
            if not _unserved(error):
                raise
        async with self._http.watch(ref, namespace, options, bookmarks=bookmarks) as others:
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
