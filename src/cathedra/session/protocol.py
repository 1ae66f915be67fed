"""The messages of sessions, and the window of objects that both ends number alike.

Messages are small msgpack arrays around objects in JSON. A client attaches users by their tokens and numbers them; each
request names its user. The server's answers carry the number of the request.

An object that was sent recently is sent again as its number: a write's result and the event that watchers get of it are
one object, sent once and decoded once. Both ends therefore count the objects.

Two answers mean that nothing was done. `UseHTTP`: sessions do not serve the request, HTTP does, if any does.
`NotBegun`: the connection is retiring, and the request is to be sent over another one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError, failure
from cathedra.client.transport import EventType, PatchType

# Raised with every change of a message: structs are arrays on the wire, so a peer of another version misreads them.
PROTOCOL: Final = 2
"""The version of the protocol; both ends must have the same (`cathedra.asgi.upgrade.SESSION` names it on the port)."""
SESSION_PATH: Final = "/api/session"
"""The path on the API server's port on which a client requests the upgrade to this protocol."""
STATUS: Final = GroupVersionKind("", "v1", "Status")
"""The kind of the result of a binding; it is never stored."""
PATCH_TYPES: Final = dict(PatchType.__members__)
"""The forms of a patch by their names in requests."""
WINDOW: Final = 1024
"""Objects that both ends keep. A result and its event pass within a turn or two of the loop, so few suffice."""


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """From now on ``user`` is the owner of ``token`` on this connection.

    There is no answer: if the token is unknown, requests of the user are refused.
    """

    protocol: int
    user: int
    token: str
    agent: str = ""
    """The user agent, for audit events."""


class RequestOptions(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The options of a request. Only those that differ from the defaults are written."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    patch_type: str = ""
    bookmarks: bool = False
    """True if a watch may receive bookmarks."""


class RequestMessage(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A verb on a resource. Every answer to it carries its ``id``."""

    id: int
    user: int
    verb: str
    """The verb of authorization. A watch lasts until it ends or is cancelled."""
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    subresource: str
    form: int
    """The client's number of the type that it decodes the objects to. The window counts objects per type."""
    options: RequestOptions
    body: bytes = b""
    """The object, the patch or the delete options, in JSON."""


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The client no longer waits for a request, or ends a watch."""

    id: int


class ServedOverHTTP(StatusError):
    """Sessions do not serve a request, and nothing was done; `UseHTTP` carries it to the client.

    It is a StatusError, because a client without HTTP beside the session, on a unix socket, gets the 404 as it is.
    """

    def __init__(self) -> None:
        super().__init__(failure(404, "NotFound", "the server could not find the requested resource").status)


FromClient = Attach | RequestMessage | Cancel


class Payload(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An object: its JSON; or, with an empty body, the number of an object in the window."""

    number: int
    """With a body, the ``form`` of the request."""
    body: bytes = b""


class ObjectMessage(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """The result of a request: an object as it is stored."""

    id: int
    object: Payload


class PlainMessage(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """The result of a request: an object that is not stored, as a Status, a review or a token."""

    id: int
    api_version: str
    kind: str
    body: bytes


class ListMessage(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Some objects of a list. Only the last such message of a list has a resource version."""

    id: int
    objects: list[Payload]
    resource_version: str = ""
    continue_: str = ""
    remaining: int | None = None


class EventMessage(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """An event of a watch."""

    id: int
    change: EventType
    object: Payload


class FailureMessage(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """A request was refused, or a watch ends with an error: a Status in JSON."""

    id: int
    status: bytes


class EndMessage(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """A watch has ended, or a request has no result."""

    id: int


class Retiring(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """The server begins nothing more on this connection. The client closes it when all requests are answered."""


class NotBegun(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """The request came after `Retiring` and was not begun. The client sends it over another connection."""

    id: int


class UseHTTP(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """Sessions do not serve the request, and nothing was done. The client sends it over HTTP, if it can."""

    id: int


FromServer = (
    ObjectMessage
    | PlainMessage
    | ListMessage
    | EventMessage
    | FailureMessage
    | EndMessage
    | Retiring
    | NotBegun
    | UseHTTP
)


class SendWindow:
    """The sender's end of the window: the objects that the receiver still has."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._kept: list[tuple[Any, tuple[int, int]] | None] = [None] * WINDOW
        self._last = 0

    def number_of(self, obj: Any, form: int) -> int:
        """Return the number of an object that the receiver has in that form; 0 if it does not have it."""
        return self._numbers.get((id(obj), form), 0)

    def add(self, obj: Any, form: int) -> int:
        """Count an object that is being sent and return its number."""
        # The window holds a reference: as long as the id is a key, no other object can get the same address.
        key = (id(obj), form)
        place = self._last % WINDOW
        oldest = self._kept[place]
        if oldest is not None:
            # The receiver overwrites this place at the same count. A number that outlives it would name another object
            # there.
            del self._numbers[oldest[1]]
        self._kept[place] = obj, key
        self._last += 1
        self._numbers[key] = self._last
        return self._last


class ReceiveWindow:
    """The receiver's end of the window."""

    def __init__(self) -> None:
        self._kept: list[Any] = [None] * WINDOW
        self._last = 0

    def add(self, obj: Any) -> None:
        """Count an object that arrived, also if nothing waits for it: the sender has counted it too."""
        self._kept[self._last % WINDOW] = obj
        self._last += 1

    def find(self, number: int) -> Any:
        """Return the object of that number.

        Raises:
            IndexError: it is not among the last `WINDOW` objects.
        """
        # A number outside the window means that the counts differ. The connection is closed, because every later object
        # could be wrong.
        if not max(self._last - WINDOW, 0) < number <= self._last:
            raise IndexError(number)
        return self._kept[(number - 1) % WINDOW]
