"""What a replica and its primary say to each other: small msgpack arrays around objects as they are stored.

All that the primary says is in the order in which it settles writes. So who has heard that its own write is settled, or
that a question is answered, has also seen everything that was settled before.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "AT_ONCE",
    "ENVELOPE_BYTES",
    "MOST_BYTES",
    "Change",
    "Content",
    "Forward",
    "FromPrimary",
    "FromReplica",
    "Question",
    "Reached",
    "Refused",
    "Settled",
    "Unserved",
]

ENVELOPE_BYTES = 64
"""What a message has beside the object in it, about."""
AT_ONCE = 32
"""So many messages do not wait for the end of a turn of the loop. Each causes some 10 µs of work at the other end, and
a frame costs both ends 30 µs."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes that a frame may have."""


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """A write that was made from revision ``expected`` of the object (0: there is none).

    The resource version is the primary's to give; it belongs between ``head`` and ``tail``, which are JSON without it.
    Of a removal the object is the last state. If that is ``shown``, it is written first, at a revision of its own.
    """

    id: int
    key: str
    expected: int
    head: bytes
    tail: bytes
    removal: bool = False
    shown: bool = False

    def numbered(self, revision: int) -> bytes:
        """The object as it is stored with that revision."""
        return b"%b%d%b" % (self.head, revision, self.tail)


class Question(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """How far is the primary? A replica has one question under way at a time."""


FromReplica = Forward | Question


class Content(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """A part of what is stored at ``revision``: keys, the revisions of their last writes, and objects; with ``last``
    nothing more of it follows."""

    revision: int
    records: tuple[tuple[str, int, bytes], ...]
    last: bool


class Change(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A write of another server was settled. Of a removal the object is the last state."""

    key: str
    revision: int
    body: bytes
    removal: bool = False


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The replica's own write was settled, at that revision."""

    id: int
    revision: int


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """The replica's own write changed nothing: the object is at ``revision``, or the store failed (``failure``)."""

    id: int
    revision: int
    failure: str = ""


class Unserved(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """The replica's own write changed nothing: its resource, a custom one, is served no longer."""

    id: int


class Reached(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The answer to the question: everything up to ``revision`` has been said, and that is how far the primary is."""

    revision: int


FromPrimary: Any = Content | Change | Settled | Refused | Unserved | Reached
