"""The messages of the binary protocol: small msgpack arrays around objects in JSON.

A client attaches users by their tokens and gives each a number; every request names the user that makes it. Objects
that the server sends are numbered by both sides as they pass, so one that was sent lately goes out again as its number:
a write's answer and the event that watchers get of it are one object, sent once and decoded once.

Over the network a connection ends with the credential that opened it. The server says so first (`Retiring`): then it
begins nothing more, answers what is under way, and the client goes on over another connection.
"""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.scheme import GroupVersionKind
from cathedra.client.transport import EventType, PatchType

__all__ = [
    "PATCH_TYPES",
    "PROTOCOL",
    "SESSION_PATH",
    "STATUS",
    "Again",
    "Attach",
    "Cancel",
    "Ended",
    "Event",
    "FromClient",
    "FromServer",
    "Listed",
    "LocalRequest",
    "ObjectAnswer",
    "Options",
    "Plain",
    "Retiring",
    "Shown",
    "StatusFailure",
]

PROTOCOL: Final = 1
"""The version of the protocol; both sides have to have the same."""
SESSION_PATH: Final = "/api/session"
"""What is asked for on the API server's port with an upgrade to this protocol."""
STATUS: Final = GroupVersionKind("", "v1", "Status")
"""What a binding is answered with; no kind that is stored."""


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """From now on ``user`` means the owner of ``token`` on this connection. Not answered: requests of a user that is
    not let in are refused."""

    protocol: int
    user: int
    token: str
    agent: str = ""
    """What audit shows as the user agent."""


class Options(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a request chooses beside its object; only what differs from the defaults is written."""

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
    """Of a watch: whether it is told how far it has come when nothing happens for long."""


class LocalRequest(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A verb on a resource; ``id`` comes back in every message about it."""

    id: int
    user: int
    verb: str
    """In the words of authorization; a watch goes on until it ends or is cancelled."""
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    subresource: str
    form: int
    """Objects of the same form are decoded alike by this client, so that they may be sent as a number."""
    options: Options
    body: bytes = b""
    """The object, the patch or the delete options, in JSON."""


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The client no longer waits for a request, or watches."""

    id: int


PATCH_TYPES: Final = dict(PatchType.__members__)
"""The forms of a patch by the names that requests have for them."""

FromClient = Attach | LocalRequest | Cancel


class Shown(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An object: its JSON, or, without a body, the number of one that was sent lately."""

    number: int
    """With a body: the object's form."""
    body: bytes = b""


class ObjectAnswer(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """The object that a request ended with."""

    id: int
    object: Shown


class Plain(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """What is answered and not stored, as a Status, a review or a token."""

    id: int
    api_version: str
    kind: str
    body: bytes


class Listed(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Some objects of a list; the last such message, and it alone, has a resource version."""

    id: int
    objects: list[Shown]
    resource_version: str = ""
    continue_: str = ""
    remaining: int | None = None


class Event(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A change that a watch shows."""

    id: int
    change: EventType
    object: Shown


class StatusFailure(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """A request was refused, or a watch ends with an error: a Status in JSON."""

    id: int
    status: bytes


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """A watch is over, or a request ended without an object."""

    id: int


class Retiring(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """The connection begins nothing more. Its client closes it when all that is under way has been answered."""


class Again(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A request came after that, and was not begun: it is to be asked over another connection."""

    id: int


FromServer = ObjectAnswer | Plain | Listed | Event | StatusFailure | Ended | Retiring | Again
