"""Sessions of an API server: on its port, where a client requests an upgrade, and on a unix socket.

On the port a session acts as the one user whose request opened it. It ends with the credential, which is checked every
few seconds, and after an hour at most, as a watch over HTTP does; requests under way are answered, and the client opens
another one. The file of the unix socket belongs to one system user, and each client shows the tokens of its users.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, bad_request, failure, unauthorized
from cathedra.apiserver.authentication.authenticator import Authenticator, StaticTokens
from cathedra.apiserver.authentication.user import UNAUTHENTICATED_GROUP, UserInfo
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.pipeline.operations import ResourceOperations, not_served
from cathedra.apiserver.server import APIServer
from cathedra.asgi.application import PEER_CERTIFICATE, PeerCertificate, RequestHeaders, Send
from cathedra.asgi.upgrade import SESSION, SESSION_UPGRADE, SWITCHING, Connections, Upgrade
from cathedra.releases import classic
from cathedra.session.protocol import SESSION_PATH
from cathedra.session.requests import Requests, SessionContext
from cathedra.session.serversession import ServerSession
from cathedra.session.transport import peer_user

LOG: Final = logging.getLogger(__name__)
MOST_SESSIONS: Final = 64
"""Limit of the sessions of one user; its further connections use HTTP."""
MOST_USERS: Final = 64
"""Limit of the numbers that a client gives to the one user of its session, with a user agent each."""
CREDENTIAL_SECONDS: Final = 10.0
"""Interval in which a credential is checked."""
SHORTEST_LIFE: Final = 1800.0
LONGEST_LIFE: Final = 3600.0


def serve_sessions(server: APIServer) -> None:
    """Serve sessions on the port of a server. Call it before the server listens."""
    server.upgrades[SESSION_PATH] = SessionEndpoint(server).open


async def listen_on_socket(server: APIServer, path: Path, tokens: Mapping[str, UserInfo]) -> None:
    """Listen on a unix socket until the server is closed, for processes of the same user that show one of ``tokens``.

    Raises:
        OSError: the socket cannot be made there.
    """
    listener = SessionSocket(SessionContext(requests_of(server), StaticTokens(tokens)), path)
    await listener.start()
    server.close_first(listener.close)


def requests_of(server: APIServer) -> Requests:
    """Return the requests of sessions, as this server carries them out."""
    operations = ResourceOperations(server.context, server.catalog)
    return Requests(server.context, server.app.pipeline, operations, server.aggregated.services)


class SessionEndpoint:
    """The path on which clients request sessions."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._context = server.context
        self._open: dict[str, set[ServerSession]] = {}

    async def open(self, request: Request, send: Send) -> None:
        """Take the upgrade of an authorized request.

        Raises:
            StatusError: it is refused: 404, no upgrade is requested; 401, without credentials; 400, for another user;
                429, too many sessions of one user.
        """
        upgrade: Upgrade | None = request.extensions.get(SESSION_UPGRADE)
        if upgrade is None:
            raise not_served()
        user = request.user
        if request.record.impersonated is not None:
            raise bad_request("a session acts as the user who opens it")
        if UNAUTHENTICATED_GROUP in user.groups:
            raise unauthorized()
        if self._context.gates.has(classic.DRIVERS_ALLOCATE):
            raise not_served()  # the kinds of those releases have types of their own, which only HTTP decodes
        if len(self._open.get(user.name, ())) >= MOST_SESSIONS:
            raise failure(429, "TooManyRequests", "too many sessions", StatusDetails())
        credential = _Credential(self._server.app.pipeline.authenticator, request)
        left = credential.seconds_left(self._context.clock.now())
        if left <= 0:
            raise unauthorized()
        # Random, so that the clients of a restarted server do not all come back in the same second an hour later.
        life = min(self._context.random.uniform(SHORTEST_LIFE, LONGEST_LIFE), left)
        # The set is shared by all sessions of the user, which count their watches together.
        siblings = self._open.setdefault(user.name, set())
        context = SessionContext(
            requests_of(self._server),
            _OneUser(user),
            most_users=MOST_USERS,
            limited=True,
            source=(request.scope.get("client") or ("",))[0],
            siblings=siblings,
        )
        lifetime = _Lifetime(upgrade.connections, siblings, credential, life)
        # Before the answer: once 101 is sent, the client's frames may arrive at any moment.
        upgrade.lead_to(ServerSession(context, lifetime))
        await send({"type": "http.response.start", "status": SWITCHING, "headers": [(b"upgrade", SESSION)]})


class _OneUser:
    """The tokens of a session on the port: none, as its user is the one that opened it."""

    def __init__(self, user: UserInfo) -> None:
        self._user = user

    def user_of(self, token: str) -> UserInfo | None:
        """Return the user if no token is shown."""
        return None if token else self._user


class _Credential:
    """The credential with which a session was opened."""

    def __init__(self, authenticator: Authenticator, request: Request) -> None:
        self._authenticator = authenticator
        shown = [header for header in request.scope["headers"] if header[0] == b"authorization"]
        self._headers = RequestHeaders(shown)
        self._certificate: PeerCertificate | None = request.extensions.get(PEER_CERTIFICATE)
        self._path = request.path
        self._user = request.user

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the certificate ends."""
        ends = self._certificate.fields.get("notAfter") if self._certificate is not None else None
        return LONGEST_LIFE if ends is None else ssl.cert_time_to_seconds(ends) - now

    def holds(self) -> bool:
        """Return True if it still authenticates the same user."""
        certificate = self._certificate.der if self._certificate is not None else None
        # It must be the same user: the token may belong to another one by now.
        try:
            return self._authenticator.authenticate(self._headers, certificate, path=self._path) == self._user
        except StatusError:
            return False


class _Lifetime:
    """The set that a session is in while it lasts: it retires the session when its time or its credential ends."""

    def __init__(
        self, connections: Connections, siblings: set[ServerSession], credential: _Credential, life: float
    ) -> None:
        self._connections = connections
        self._siblings = siblings
        self._credential = credential
        self._ends = asyncio.get_running_loop().time() + life
        self._timer: asyncio.TimerHandle | None = None

    def add(self, session: ServerSession, /) -> None:
        """Begin to check the credential of a session."""
        self._connections.add(session)
        self._siblings.add(session)
        self._schedule_check(session.retire)

    def discard(self, session: ServerSession, /) -> None:
        """Stop: the session is over."""
        self._connections.discard(session)
        self._siblings.discard(session)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule_check(self, retire: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        soon = min(CREDENTIAL_SECONDS, max(self._ends - loop.time(), 0.0))
        self._timer = loop.call_later(soon, self._check, retire)

    def _check(self, retire: Callable[[], None]) -> None:
        if asyncio.get_running_loop().time() >= self._ends or not self._credential.holds():
            self._timer = None
            retire()
        else:
            self._schedule_check(retire)


class _SocketSession(ServerSession):
    """A session with a process of the same user."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connections of other users' processes."""
        user = peer_user(transport)
        if user != os.geteuid():
            LOG.warning("a process of user %d was not let in", user)
            connection: Any = transport
            connection.close()
            return
        super().connection_made(transport)


class SessionSocket:
    """Listens on a unix socket until it is closed."""

    def __init__(self, context: SessionContext, path: Path) -> None:
        self._context = context
        self.path = path
        self._listening: asyncio.AbstractServer | None = None
        self._sessions: set[ServerSession] = set()

    async def start(self) -> None:
        """Make the socket, in place of one that a killed server left.

        Raises:
            OSError: it cannot be made there.
        """
        # A killed server leaves its file, and a socket cannot be bound to a path that exists.
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.setblocking(False)
        try:
            # Nothing can connect before `listen`, so the file is closed to others before it can be used.
            listening.bind(str(self.path))
            os.chmod(self.path, 0o600)
            self._listening = await asyncio.get_running_loop().create_unix_server(
                lambda: _SocketSession(self._context, self._sessions), sock=listening
            )
        except BaseException:
            listening.close()
            raise

    async def close(self) -> None:
        """End every connection and remove the socket."""
        if self._listening is None:
            return
        self._listening.close()
        # `wait_closed` waits for the connections too, so they are closed first.
        for session in tuple(self._sessions):
            session.close()
        await self._listening.wait_closed()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
