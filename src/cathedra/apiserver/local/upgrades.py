"""Sessions over the port of the API: a client that is known asks for the upgrade, and goes on in the binary protocol.

A session acts as the user whose request it was, and as no other. It ends with the credential, which is looked at again
every few seconds, and after an hour at most, as a watch over HTTP does: then requests under way are answered, and the
client makes another one. What it may ask for and how much at a time is as over HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, bad_request, failure, unauthorized
from cathedra.apiserver.authentication.authenticator import Authenticator
from cathedra.apiserver.authentication.user import UNAUTHENTICATED_GROUP, UserInfo
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.local.session import Session
from cathedra.apiserver.local.sessionstate import LocalServer
from cathedra.apiserver.pipeline.operations import not_served
from cathedra.asgi.application import Send
from cathedra.asgi.headers import RequestHeaders
from cathedra.asgi.peercertificate import PEER_CERTIFICATE, PeerCertificate
from cathedra.asgi.upgrade import SESSION, SESSION_UPGRADE, SWITCHING, Connections, Upgrade
from cathedra.releases import classic

__all__ = ["MOST_SESSIONS", "Sessions"]

MOST_SESSIONS: Final = 64
"""Of one user at a time; its further connections speak HTTP."""
MOST_USERS: Final = 64
"""Numbers that a client may give to the one user of its session, with agents of their own."""
CREDENTIAL_SECONDS: Final = 10.0
"""After which it is asked again whether a credential is still good."""
SHORTEST_LIFE: Final = 1800.0
LONGEST_LIFE: Final = 3600.0


class Sessions:
    """The sessions of one server over its port."""

    def __init__(self, server: LocalServer, authenticator: Authenticator) -> None:
        self._server = server
        self._context = server.context
        self._authenticator = authenticator
        self._open: dict[str, set[Session]] = {}

    async def open(self, request: Request, send: Send) -> None:
        """Take the upgrade that an authorized request asks for.

        Raises:
            StatusError: it is refused: 401, without credentials; 400, for another user; 429, too many of one user.
        """
        upgrade: Upgrade = request.scope["extensions"][SESSION_UPGRADE]
        user = request.user
        if request.record.impersonated is not None:
            raise bad_request("a session acts as the user who opens it")
        if UNAUTHENTICATED_GROUP in user.groups:
            raise unauthorized()
        if self._context.gates.has(classic.DRIVERS_ALLOCATE):
            raise not_served()  # The kinds of those releases have types of their own, which only HTTP decodes.
        if len(self._open.get(user.name, ())) >= MOST_SESSIONS:
            raise failure(429, "TooManyRequests", "too many sessions", StatusDetails())
        credential = _Credential(self._authenticator, request)
        left = credential.left(self._context.clock.now())
        if left <= 0:
            raise unauthorized()
        life = min(self._context.random.uniform(SHORTEST_LIFE, LONGEST_LIFE), left)
        siblings = self._open.setdefault(user.name, set())
        server = msgspec.structs.replace(
            self._server,
            tokens=_OneUser(user),
            most_users=MOST_USERS,
            limited=True,
            siblings=siblings,
            source=(request.scope.get("client") or ("",))[0],
        )
        term = _Term(upgrade.connections, siblings, credential, life)
        upgrade.lead_to(Session(server, term))
        await send({"type": "http.response.start", "status": SWITCHING, "headers": [(b"upgrade", SESSION)]})


class _OneUser:
    """The user of a session, who shows no other token than the one that opened it."""

    def __init__(self, user: UserInfo) -> None:
        self._user = user

    def user_of(self, token: str) -> UserInfo | None:
        """The user, if nothing is shown."""
        return None if token else self._user


class _Credential:
    """What a session was opened with."""

    def __init__(self, authenticator: Authenticator, request: Request) -> None:
        self._authenticator = authenticator
        shown = [header for header in request.scope["headers"] if header[0] == b"authorization"]
        self._headers = RequestHeaders(shown)
        self._certificate: PeerCertificate | None = request.scope.get("extensions", {}).get(PEER_CERTIFICATE)
        self._path = request.path
        self._user = request.user

    def left(self, now: float) -> float:
        """Seconds until the certificate ends."""
        ends = self._certificate.fields.get("notAfter") if self._certificate is not None else None
        return LONGEST_LIFE if ends is None else ssl.cert_time_to_seconds(ends) - now

    def holds(self) -> bool:
        """Whether it still names the same user."""
        certificate = self._certificate.der if self._certificate is not None else None
        try:
            return self._authenticator.authenticate(self._headers, certificate, path=self._path) == self._user
        except StatusError:
            return False


class _Term:
    """How long a session may last: it begins when the session enters, and ends when it leaves."""

    def __init__(self, connections: Connections, others: set[Session], credential: _Credential, life: float) -> None:
        self._connections = connections
        self._others = others
        self._credential = credential
        self._ends = asyncio.get_running_loop().time() + life
        self._timer: asyncio.TimerHandle | None = None

    def add(self, session: Session, /) -> None:
        """The session has begun."""
        self._connections.add(session)
        self._others.add(session)
        self._look_again(session.retire)

    def discard(self, session: Session, /) -> None:
        """The session is over."""
        self._connections.discard(session)
        self._others.discard(session)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_again(self, retire: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        soon = min(CREDENTIAL_SECONDS, max(self._ends - loop.time(), 0.0))
        self._timer = loop.call_later(soon, self._look, retire)

    def _look(self, retire: Callable[[], None]) -> None:
        if asyncio.get_running_loop().time() >= self._ends or not self._credential.holds():
            self._timer = None
            retire()
        else:
            self._look_again(retire)
