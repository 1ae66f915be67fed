"""Decoding of the API server's answers over HTTP: objects, lists, lines of watches and refusals.

One object that cannot be decoded is reported by itself, and all others of its list or watch are used.
"""

from __future__ import annotations

import logging
from functools import cache
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import KubeObject, ListMeta, ObjectMeta, Status
from cathedra.api.nesting import WRAPPED_DEPTH, NestingError, check_nesting
from cathedra.api.parts import reader_of
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, decode, replace
from cathedra.api.undecodable import (
    FAULTS,
    NotAnObject,
    Undecodable,
    UndecodableObject,
    identify,
    is_cut,
    readable,
)
from cathedra.client.transport import EventType, MalformedAnswer, ResourceRef, WatchEvent, undecodable_event
from cathedra.remembering import IS_ON

S = TypeVar("S", bound=KubeStruct)
T = TypeVar("T", bound=KubeObject)

_LOG: Final = logging.getLogger(__name__)
KEPT: Final = 256
"""Objects that `ReceivedObjects` keeps: an answer and its event come soon after each other."""
_LARGEST_KEPT: Final = 16 * 1024
"""Bytes up to which they are."""


class _Envelope(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class TypeMeta(KubeStruct, frozen=True, rename={"api_version": "apiVersion"}):
    """Kind and version of an answer; "" where it has none."""

    kind: str = ""
    api_version: str = ""


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_CHANGES: Final = {one.value: one for one in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED)}
_SHOWN: Final = 200
"""Bytes of a malformed answer that its error quotes."""


class _BookmarkOnly(KubeStruct, frozen=True):
    """The only field of a bookmark that is read."""

    metadata: ListMeta = ListMeta()


class ReceivedObjects:
    """Cache of the objects that were decoded lately, keyed by their bytes: an answer and its event are one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, bytes], Any] = {}

    def read(self, kind: type[S], body: bytes) -> S:
        """Decode an object of type ``kind``.

        Raises:
            UndecodableObject: the object is of another form, or nested too deeply.
            MalformedAnswer: the bytes are no object.
        """
        key = kind, body
        found: S | None = self._known.get(key)
        if found is None:
            try:
                found = _object(kind, body)
            except FAULTS as error:
                raise UndecodableObject(_identified(kind, body, error)) from error
            if IS_ON and len(body) <= _LARGEST_KEPT:
                if len(self._known) >= KEPT:
                    # The oldest entry: an answer and its event follow each other closely.
                    del self._known[next(iter(self._known))]
                self._known[key] = found
        return found


def event_of(ref: ResourceRef[T], line: bytes, received: ReceivedObjects) -> WatchEvent[T]:
    """Decode a line of a watch.

    Raises:
        StatusError: it ends the watch with an error.
        MalformedAnswer: it is no event with an object.
    """
    frame, is_whole = _frame(line)
    body = bytes(frame.object)
    if frame.type == "ERROR":
        raise StatusError(_status_of(body))
    if frame.type == "BOOKMARK":
        # A bookmark carries nothing but its resource version; it need not be a valid object of the kind.
        return _bookmark(ref.type, body)
    change = _CHANGES.get(frame.type)
    if change is None:
        # As client-go, which goes on with the next event: a newer server may report more than we know.
        _LOG.warning("%s: a watch event of the unknown type %.40r is ignored", ref.resource, frame.type)
        return _bookmark(ref.type, body)
    if not is_whole:
        return undecodable_event(ref.type, change, _identified(ref.type, body, NestingError()))
    try:
        obj = received.read(ref.type, body)
    except UndecodableObject as error:
        return undecodable_event(ref.type, change, error.what)
    return WatchEvent(change, obj)


def _frame(line: bytes) -> tuple[_Envelope, bool]:
    """Parse one line of a watch. The second value is False if parts that are nested too deeply were dropped.

    Raises:
        MalformedAnswer: it is no event with an object.
    """
    try:
        check_nesting(line, WRAPPED_DEPTH)
        return _ENVELOPE.decode(line), True
    except FAULTS:
        line = readable(line)
    try:
        return _ENVELOPE.decode(line), not is_cut(line)
    except FAULTS as error:
        raise MalformedAnswer(f"a line of a watch is no event: {error}: {line[:_SHOWN]!r}") from error


def _bookmark(kind: type[T], body: bytes) -> WatchEvent[T]:
    try:
        version = decode(_BookmarkOnly, body).metadata.resource_version
    except FAULTS:
        version = ""  # without a version the position of the watch is unchanged
    return WatchEvent(EventType.BOOKMARK, kind(metadata=ObjectMeta(resource_version=version)))


def _object(kind: type[S], body: bytes) -> S:
    check_nesting(body, WRAPPED_DEPTH)
    try:
        # Without kind and version an object equals the one that another version of the API shows.
        return replace(reader_of(kind)(body), kind="", api_version="")
    except msgspec.ValidationError:
        raise
    except FAULTS:
        text = readable(body)
        # Nothing was repaired, so the error is a real one.
        if text == body:
            raise
        return replace(reader_of(kind)(text), kind="", api_version="")


@cache
def list_type(kind: type[T]) -> Any:
    """Return the type of a list of ``kind``. Custom kinds have no list struct of their own."""
    return msgspec.defstruct(
        f"{kind.__name__}List",
        [("metadata", ListMeta, ListMeta()), ("items", tuple[kind, ...] | None, ())],  # type: ignore[valid-type]  # made at run time
        frozen=True,
    )


class _RawList(msgspec.Struct, frozen=True):
    """A list of which nothing is decoded yet."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


_RAW_LIST: Final = msgspec.json.Decoder(_RawList)


def list_item_by_item(kind: type[T], body: bytes) -> tuple[ListMeta, list[T], tuple[Undecodable, ...]]:
    """Decode a list that cannot be decoded as a whole, into metadata, the items that can be decoded, and the others.

    Nulls where Go has nil lists come this way too, so that only the items that have some are mended.

    Raises:
        MalformedAnswer: it is no list of objects.
    """
    body = readable(body)
    try:
        answer = _RAW_LIST.decode(body)
        metadata = decode(ListMeta, b"{}" if bytes(answer.metadata) == b"null" else bytes(answer.metadata))
    except FAULTS as error:
        raise MalformedAnswer(f"no list of objects: {error}: {body[:_SHOWN]!r}") from error
    items: list[T] = []
    undecodable: list[Undecodable] = []
    for raw in answer.items or ():
        item = bytes(raw)
        try:
            if is_cut(item):
                raise NestingError
            items.append(_object(kind, item))
        except FAULTS as error:
            try:
                undecodable.append(identify(kind, item, error))
            except NotAnObject as fault:
                _LOG.error("%s: an item of a list is ignored: %s", kind.__name__, fault)
    return metadata, items, tuple(undecodable)


def may_be_repeated(code: int, *, is_read: bool) -> bool:
    """Return True if a request may be sent again that was refused with ``code`` and a time to retry after.

    With 429 and 503 nothing was done. With 500 and 504 a server may have lost the answer of its store to a write, which
    was carried out: sent again, it would be refused as a conflict, or undo what another client has done since.
    client-go repeats those, too.
    """
    return code in (429, 503) or (is_read and code in (500, 504))


def _identified(kind: type[KubeStruct], body: bytes, error: Exception) -> Undecodable:
    """Raises:
    MalformedAnswer: the bytes are no object.
    """
    try:
        return identify(kind, body, error)
    except NotAnObject as fault:
        raise MalformedAnswer(f"{kind.__name__}: {fault}: {body[:_SHOWN]!r}") from error


def meta_of(body: bytes) -> TypeMeta:
    """Decode kind and version of an answer."""
    try:
        return decode(TypeMeta, body)
    except FAULTS:
        return TypeMeta()  # decoding the whole answer raises the error


def _status_of(body: bytes) -> Status:
    """Raises:
    MalformedAnswer: the bytes are no Status.
    """
    try:
        return decode(Status, body)
    except FAULTS as error:
        raise MalformedAnswer(f"a watch ends with an error that is no Status: {body[:_SHOWN]!r}") from error


def refusal_of(code: int, body: bytes) -> StatusError:
    """Return the error that an answer with a status code from 400 on means."""
    try:
        status = decode(Status, body)
    except FAULTS:
        status = Status()
    # Proxies and load balancers answer with text or HTML; the user needs to see it.
    if status.status != "Failure":
        phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "Unknown"
        text = body[:1000].decode("utf-8", "replace").strip() or phrase
        status = Status(status="Failure", code=code, reason=_REASONS.get(code, ""), message=text)
    return StatusError(status)


_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
