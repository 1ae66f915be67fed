"""The transport to the API server that a kubeconfig names: a session, HTTP, or both.

Over TLS a session is requested with the first call, and again for each connection. If the server refuses, as a
kube-apiserver does with 404, HTTP is used and the session requested again after a minute. Calls that sessions do not
serve, as on scales and aggregated APIs, use HTTP beside the session.

``CATHEDRA_DISABLE_SESSIONS`` in the environment, with any value, leaves only HTTP, which tools for debugging can read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from cathedra import __version__
from cathedra.api.status import StatusError
from cathedra.client.answers import may_be_repeated
from cathedra.client.denials import Denials
from cathedra.client.http import LONGEST_PAUSE, RETRIES, HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.client.servers import NotSent, ServerLeft
from cathedra.client.transport import APICall, BatchedEvents, Transport, WatchEvent, in_batches
from cathedra.session.connection import ConnectionRetired, ProtocolRefused
from cathedra.session.protocol import ServedOverHTTP
from cathedra.session.transport import SessionTransport, UnixConnection, UpgradedConnection

DISABLED: Final = "CATHEDRA_DISABLE_SESSIONS"
"""The variable that leaves only HTTP, as ``DISABLE_HTTP2`` leaves only HTTP/1.1 for clients of Kubernetes."""
REFUSED_SECONDS: Final = 60.0
"""Time after which a server that refused a session is sent another request for one."""
_READS: Final = frozenset({"get", "list"})


@asynccontextmanager
async def open_transport(
    target: Target, *, user_agent: str, denials: Denials | None = None, requests: RequestMetrics | None = None
) -> AsyncIterator[Transport]:
    """Yield a transport to ``target``; nothing is sent before the first call.

    Refusals for want of a right are reported to ``denials``, and HTTP requests counted by ``requests``.

    Raises:
        ssl.SSLError: certificates or keys cannot be read.
    """
    if target.socket is None:
        async with await HTTPTransport.open(target, user_agent=user_agent, denials=denials, requests=requests) as http:
            # Without TLS the token of the session could be read on the way; a password has no place in the protocol.
            if http.tls is None or target.username or os.environ.get(DISABLED):
                yield http
                return
            transport = UpgradingTransport(http, target, agent=user_agent)
            try:
                yield transport
            finally:
                await transport.close()
        return
    connection = UnixConnection(target.socket, denials)
    try:
        yield SessionTransport(connection, target.token, agent=user_agent)
    finally:
        connection.close()


class UpgradingTransport:
    """A `cathedra.client.transport.Transport` over sessions with a server, as one user, with HTTP as the fallback.

    There is one session at a time, with the server that ``http`` uses then.

    The opener of ``http`` closes it; `close` ends the session.
    """

    def __init__(self, http: HTTPTransport, target: Target, *, agent: str) -> None:
        self._http = http
        self._servers = http.servers
        self._server_name = target.tls_server_name or None
        self._agent = agent
        self._session: tuple[UpgradedConnection, SessionTransport] | None = None
        self._session_server = ""
        self._refused_until = 0.0

    async def call(self, call: APICall) -> Any:
        """Carry out a call over the session if one serves it, and otherwise over HTTP.

        Raises:
            StatusError: the server refuses, also after the retries that its refusals allowed.
            ConnectionError: it cannot be reached.
        """
        if call.options.query:
            return await self._http.call(call)  # a message has no place for further parameters of a URL
        attempt = 0
        while True:
            transport, server = self._current(), self._servers.current
            try:
                if transport is self._http:
                    return await transport.call(call)
                async with self._servers.using():
                    return await transport.call(call)
            except ProtocolRefused:
                self._refuse()
                return await self._http.call(call)
            except ConnectionRetired:
                continue  # the call was not begun: the next session carries it out
            except ServedOverHTTP:
                return await self._http.call(call)
            except ServerLeft:
                if call.verb not in _READS:
                    raise
                continue
            except NotSent:
                if not await self._servers.await_other(server):
                    raise
                continue
            except StatusError as error:
                # HTTP's transport has obeyed the times to retry after by itself.
                pause = 0.0 if transport is self._http else _pause(error, is_read=call.verb in _READS)
                attempt += 1
                # Bounded, so that a server that always refuses is reported to the caller in the end.
                if attempt > RETRIES or not pause:
                    raise
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until the server ends the stream."""
        async with AsyncExitStack() as opened:
            server = await opened.enter_async_context(self._servers.using())
            begun: AsyncIterator[WatchEvent[Any]] | None = None
            while begun is None:
                transport = self._current()
                try:
                    if transport is self._http:
                        begun = await opened.enter_async_context(self._http.watch_at(server, call))
                    else:
                        events = await opened.enter_async_context(transport.watch(call))
                        begun = BatchedEvents(self._batches(events, server, call))
                except ProtocolRefused:
                    self._refuse()
                except ConnectionRetired:
                    continue  # the watch was not begun: the next session carries it
            yield begun

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path of the server over HTTP and return the body."""
        return await self._http.get_raw(path, query)

    async def close(self) -> None:
        """End the session; HTTP stays open."""
        self._end_session()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session[0].close()
            self._session = None

    async def _batches(
        self, events: AsyncIterator[WatchEvent[Any]], server: str, call: APICall
    ) -> AsyncIterator[Sequence[WatchEvent[Any]]]:
        """Yield the events of a session's watch, or of one over HTTP if sessions do not serve it.

        A refusal arrives with the stream: the watch is sent without waiting for an answer.
        """
        try:
            async for batch in in_batches(events):
                yield batch
            return
        except ConnectionRetired:
            return  # not begun: the stream ends, and the informer's next watch uses another connection
        except ServedOverHTTP:
            pass
        async with self._http.watch_at(server, call) as others:
            async for batch in in_batches(others):
                yield batch

    def _current(self) -> Transport:
        """Return the session, or HTTP while the server refuses sessions."""
        session = self._session
        if self._session_server != self._servers.current:
            # Not retired: the server that was left may hang, and would never answer the last request.
            self._end_session()
            self._refused_until = 0.0
        elif session is not None and not session[0].retiring:
            return session[1]
        tls = self._http.tls
        if tls is None or asyncio.get_running_loop().time() < self._refused_until:
            return self._http
        agent = f"{self._agent}/{__version__}"
        self._session_server = self._servers.current
        connection = UpgradedConnection(
            self._session_server,
            tls,
            server_name=self._server_name,
            agent=agent,
            authorization=self._http.authorization,
            denials=self._http.denials,
        )
        # A retiring connection is replaced, not closed: it closes itself when its last request is answered.
        self._session = connection, SessionTransport(connection, "", agent=agent)
        return self._session[1]

    def _refuse(self) -> None:
        self._session = None
        # Not for ever: the server may be upgraded, or a proxy that refused the upgrade be replaced.
        self._refused_until = asyncio.get_running_loop().time() + REFUSED_SECONDS


def _pause(error: StatusError, *, is_read: bool) -> float:
    """Return the seconds after which the call is to be repeated; 0 if the server names none, or it must not be."""
    details = error.status.details
    if details is None or not may_be_repeated(error.code, is_read=is_read):
        return 0.0
    return min(float(details.retry_after_seconds), LONGEST_PAUSE)
