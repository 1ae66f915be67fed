"""Parts of the server that a session uses, and the state of its users and watches."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import msgspec

from cathedra.apiserver.authentication.authenticator import KnownTokens
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.local.requests import Requests
from cathedra.apiserver.pipeline.operations import Operations
from cathedra.apiserver.pipeline.pipeline import Pipeline
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.watching import Seen
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.read import WatchStart
from cathedra.client.local.messages import LocalRequest

if TYPE_CHECKING:
    from cathedra.apiserver.local.session import Session

__all__ = ["LocalServer", "SessionUser", "SessionWatch"]

MOST_USERS: Final = 65_536
"""Users of a connection."""


class LocalServer(msgspec.Struct, frozen=True):
    """Parts of the server that sessions use."""

    context: ServerContext
    pipeline: Pipeline
    operations: Operations
    requests: Requests
    tokens: KnownTokens
    most_users: int = MOST_USERS
    limited: bool = False
    """True over the network: requests take seats and have deadlines, and writes a field manager."""
    source: str = ""
    """The address of the client, for audit."""
    siblings: Collection[Session] = ()
    """All sessions of the same user, this one among them; none: there is no limit for all of them together."""


class SessionUser(msgspec.Struct, frozen=True):
    """A user of a connection."""

    info: UserInfo
    agent: str
    trusted: bool
    """True if the authorizer allows the user everything."""
    manager: str
    """The field manager of writes that name none."""


class SessionWatch:
    """A watch under way."""

    __slots__ = ("_taken", "bookmarks", "call", "form", "id", "is_beginning", "quiet", "record", "start")

    def __init__(self, request: LocalRequest, call: Call, start: WatchStart, record: RequestRecord) -> None:
        self.id = request.id
        self.form = request.form
        self.call = call
        self.start = start
        self.record = record
        self.bookmarks = request.options.bookmarks
        self.quiet = True
        """True if nothing was sent since the last check for bookmarks."""
        self.is_beginning = True
        """True if some of them are not sent yet."""
        self._taken = start.initial_events()

    def next(self) -> Seen | None:
        """Return the next event; None if none waits now. What is there already comes first."""
        seen = next(self._taken, None)
        if seen is None:
            self.is_beginning = False
            self._taken = iter(self.start.watcher.taken())
            seen = next(self._taken, None)
        return seen
