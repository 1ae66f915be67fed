"""The interface between the typed client and an API server: one call, one method.

Three transports implement it: HTTP to any Kubernetes API server, the binary protocol of sessions, and the API server's
own in-process transport, which passes frozen objects by reference. Informers, controllers, scheduler, node agent and
driver run unchanged on each; that makes every part replaceable by its Kubernetes counterpart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.undecodable import Undecodable

__all__ = [
    "APICall",
    "BatchedEvents",
    "EventType",
    "ListOptions",
    "MalformedAnswer",
    "Page",
    "PatchType",
    "RawTransport",
]
__all__ += ["ResourceRef", "Transport", "Verb", "WatchEvent", "WriteOptions", "in_batches", "undecodable_event"]

T = TypeVar("T", bound=KubeObject)
T_co = TypeVar("T_co", bound=KubeObject, covariant=True)

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
"""The verbs of the API, in the words of authorization."""


class ResourceRef(msgspec.Struct, Generic[T_co], frozen=True):
    """A resource in one version, with the struct of its objects."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    type: type[T_co]

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __hash__(self) -> int:
        # Hashed several times per request; three names suffice to distinguish references.
        return hash((self.resource, self.group, self.version))


class PatchType(Enum):
    """The four forms of a patch, by media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(Enum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class MalformedAnswer(ConnectionError):
    """An answer that no Kubernetes API server gives, as the error page of a proxy. A retry may help."""


class WatchEvent(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """A change, with the object after it (for DELETED, the last state)."""

    type: EventType
    object: T_co
    undecodable: Undecodable | None = None
    """The object that was added, changed or deleted, if it cannot be decoded (`undecodable_event`)."""


def undecodable_event(kind: type[T], change: EventType, what: Undecodable, resource_version: str = "") -> WatchEvent[T]:
    """Return the event of an object that cannot be decoded.

    Readers that ignore ``undecodable`` see a bookmark, or the deletion of an object that has only metadata.
    """
    version = what.resource_version or resource_version
    shown = EventType.DELETED if change is EventType.DELETED else EventType.BOOKMARK
    metadata = ObjectMeta(resource_version=version)
    if shown is EventType.DELETED:
        metadata = ObjectMeta(namespace=what.namespace, name=what.name, uid=what.uid, resource_version=version)
    return WatchEvent(shown, kind(metadata=metadata), what)


class BatchedEvents(AsyncIterator[WatchEvent[T]]):
    """The events of a watch that arrive several at a time. Iteration yields each of them."""

    def __init__(self, batches: AsyncIterator[Sequence[WatchEvent[T]]]) -> None:
        self.batches = batches
        self._events = _one_by_one(batches)

    def __anext__(self) -> Coroutine[Any, Any, WatchEvent[T]]:
        """Return the next event."""
        return self._events.__anext__()


async def _one_by_one(batches: AsyncIterator[Sequence[WatchEvent[T]]]) -> AsyncGenerator[WatchEvent[T], None]:
    async for batch in batches:
        for event in batch:
            yield event


def in_batches(events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[Sequence[WatchEvent[T]]]:
    """Return the events of a watch in the batches in which they arrive: a turn of a generator for each event would take
    a third of what an informer does with it."""
    return events.batches if isinstance(events, BatchedEvents) else _in_ones(events)


async def _in_ones(events: AsyncIterator[WatchEvent[T]]) -> AsyncIterator[Sequence[WatchEvent[T]]]:
    async for event in events:
        yield (event,)


class Page(msgspec.Struct, Generic[T_co], frozen=True):
    """The result of a list: objects, the resource version to watch from, and the token of the next page."""

    items: tuple[T_co, ...]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None
    undecodable: tuple[Undecodable, ...] = ()
    """Objects that exist but are not among the items, because they cannot be decoded."""


class ListOptions(msgspec.Struct, frozen=True, gc=False):
    """The objects of a list or watch, and the resource version to start from. Selectors have Kubernetes' text form."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    probe: bool = False
    """True if the caller expects a refusal: it is not reported as a missing right."""
    bookmarks: bool = True
    """True if a watch may receive bookmarks."""


class WriteOptions(msgspec.Struct, frozen=True, gc=False):
    """Options of a write: dry run, field manager, field validation, force for apply."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Further parameters of the URL. A call that has any goes over HTTP."""


EVERYTHING: Final = ListOptions()
DEFAULT_OPTIONS: Final = WriteOptions()


@runtime_checkable
class RawTransport(Protocol):
    """A transport that also reads paths that are no resources, as ``/openapi/v3``."""

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET a path of the server and return the body.

        Raises:
            StatusError: the server refuses.
            ConnectionError: the server cannot be reached.
        """


class APICall(msgspec.Struct, frozen=True, gc=False):
    """One call of the Kubernetes API: a verb on a resource in one version, with its object and options.

    `cathedra.client.client.ResourceClient` makes one per request, and wrappers pass it on. It is a struct that the
    garbage collector does not track, because it is made so often (0.05 µs) and cannot be part of a cycle.
    """

    verb: Verb
    ref: ResourceRef[Any]
    namespace: str = ""
    """Empty for cluster-scoped resources, and for lists and watches over all namespaces."""
    name: str = ""
    """The object's name. Empty for collections, and for a creation that is not on a sub-resource."""
    subresource: str = ""
    """Empty, or a name like ``status`` or ``binding``."""
    body: Any = None
    """The object of a create or update, the plain JSON values of a patch, the `DeleteOptions` of a deletion."""
    patch_type: PatchType | None = None
    """The form of the body of a patch."""
    options: WriteOptions = DEFAULT_OPTIONS
    """Of create, update and patch."""
    selection: ListOptions = EVERYTHING
    """Of list, watch and deletecollection."""


class Transport(Protocol):
    """A connection to an API server, as one user.

    One method carries out every verb, so that a wrapper (audit, negotiation, faults in tests) is one method too.
    `watch` is separate because its result is a stream with an owner: leaving the context ends the stream on every
    path, which a value that is awaited cannot ensure.
    """

    def call(self, call: APICall) -> Coroutine[Any, Any, Any]:
        """Carry out a call and return its result; nothing happens before the coroutine is awaited.

        The result of ``list`` is a `Page`; of ``deletecollection``, None; of ``delete``, the object as it is now if it
        lives on (grace period, finalizers), or its last state, or None. Every other result is an object: that of a
        POST on a sub-resource has the type that the sub-resource returns.

        Raises:
            StatusError: the server refuses.
            ConnectionError: the server cannot be reached.
            UndecodableObject: the result is one object and cannot be decoded. Lists leave such an object out
                (`Page.undecodable`), as watches do.
        """

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes after ``call.selection.resource_version``, until the server ends it or the context exits.

        A stream in which several events may arrive at once is a `BatchedEvents`.

        Raises:
            StatusError: the server refuses, or ends the stream with an error.
            ConnectionError: the server cannot be reached, or the connection is lost.
        """

    async def close(self) -> None:
        """Close the connections that this transport opened."""
