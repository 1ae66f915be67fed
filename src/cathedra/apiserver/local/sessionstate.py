"""Parts of the server that a session uses, and the state of its users and watches."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import msgspec

from cathedra.apiserver.authentication.authenticator import KnownTokens
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.local.limits import Traffic, Turnstile
from cathedra.apiserver.local.records import Recorder
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.watching import Seen
from cathedra.apiserver.request import Call
from cathedra.apiserver.traffic.levels import Seat
from cathedra.apiserver.traffic.record import RequestRecord
from cathedra.apiserver.transport import InProcessTransport
from cathedra.apiserver.verbs.read import WatchStart
from cathedra.client.local.messages import LocalRequest

if TYPE_CHECKING:
    from cathedra.apiserver.local.session import Session

__all__ = ["LocalServer", "SessionUser", "SessionWatch"]

MOST_USERS: Final = 65_536
"""Users of a connection."""


class LocalServer(msgspec.Struct, frozen=True):
    """Parts of the server that sessions use."""

    registry: Registry
    catalog: Catalog
    tokens: KnownTokens
    recorder: Recorder
    transport_of: Callable[[UserInfo], InProcessTransport]
    most_users: int = MOST_USERS
    traffic: Traffic | None = None
    """None: requests take no seats, and as long as they need."""
    source: str = ""
    """The address of the client, for audit."""
    siblings: Collection[Session] = ()
    """All sessions of the same user, this one among them; none: there is no limit for all of them together."""


class SessionUser(msgspec.Struct, frozen=True):
    """A user of a connection."""

    info: UserInfo
    agent: str
    transport: InProcessTransport
    turnstile: Turnstile | None
    manager: str
    """The field manager of writes that name none."""


class SessionWatch:
    """A watch under way."""

    __slots__ = ("_taken", "bookmarks", "call", "form", "id", "is_beginning", "quiet", "record", "seat", "start")

    def __init__(self, request: LocalRequest, call: Call, start: WatchStart, record: RequestRecord, seat: Seat) -> None:
        self.id = request.id
        self.form = request.form
        self.call = call
        self.start = start
        self.record = record
        self.bookmarks = request.options.bookmarks
        self.quiet = True
        """True if nothing was sent since the last check for bookmarks."""
        self.seat = seat
        """Held until the first events are sent."""
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
