"""What the client asks of the way to the API server, wherever that server is.

Two transports speak it: HTTP, to any Kubernetes API server, and the API server's own in-process one, where frozen
objects pass by reference. Everything above (informers, controllers, scheduler, node agent, driver) cannot tell them
apart; that is what makes each part replaceable by its Kubernetes counterpart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject, ObjectMeta
from cathedra.api.undecodable import Undecodable

__all__ = ["EventType", "ListOptions", "MalformedAnswer", "Page", "PatchType", "ResourceRef", "Transport"]
__all__ += ["WatchEvent", "WriteOptions", "undecodable_event"]

T = TypeVar("T", bound=KubeObject)
T_co = TypeVar("T_co", bound=KubeObject, covariant=True)


class ResourceRef(msgspec.Struct, Generic[T_co], frozen=True):
    """A resource in one version, and the struct its objects have."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    type: type[T_co]

    def __hash__(self) -> int:
        # Hashed several times per request: three names tell references apart, without the other three fields.
        return hash((self.resource, self.group, self.version))


class PatchType(Enum):
    """The four forms of a patch, by media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class EventType(Enum):
    """What a watch reports."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class MalformedAnswer(ConnectionError):
    """An answer that no Kubernetes API server gives, as the page of a proxy. Trying again may help."""


class WatchEvent(msgspec.Struct, Generic[T_co], frozen=True):
    """One change, with the object as it was afterwards (for DELETED: as it was last)."""

    type: EventType
    object: T_co
    undecodable: Undecodable | None = None
    """The object that was added, changed or deleted, where it cannot be decoded (`undecodable_event`)."""


def undecodable_event(kind: type[T], change: EventType, what: Undecodable, resource_version: str = "") -> WatchEvent[T]:
    """The event of an object that cannot be decoded.

    Readers that do not look for such objects see a bookmark, or the deletion of an object with nothing but metadata.
    """
    version = what.resource_version or resource_version
    shown = EventType.DELETED if change is EventType.DELETED else EventType.BOOKMARK
    metadata = ObjectMeta(resource_version=version)
    if shown is EventType.DELETED:
        metadata = ObjectMeta(namespace=what.namespace, name=what.name, uid=what.uid, resource_version=version)
    return WatchEvent(shown, kind(metadata=metadata), what)


class Page(msgspec.Struct, Generic[T_co], frozen=True):
    """A list's answer: objects, the resource version to watch from, and how to go on."""

    items: tuple[T_co, ...]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None
    undecodable: tuple[Undecodable, ...] = ()
    """Objects that exist and are not among the items, for they cannot be decoded."""


class ListOptions(msgspec.Struct, frozen=True):
    """Which objects, and from when. Selectors in Kubernetes' text form."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    probe: bool = False
    """True if the caller expects a refusal: it is not reported as a missing right."""


class WriteOptions(msgspec.Struct, frozen=True):
    """How to write: dry run, field manager, field validation, force for apply."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    query: Mapping[str, str] = msgspec.field(default_factory=dict)


@runtime_checkable
class RawTransport(Protocol):
    """A way to a server that hands over the bytes of its answers."""

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET a path of the server."""
        ...


class Transport(Protocol):
    """The verbs of the Kubernetes API on typed objects.

    ``namespace`` is "" for cluster-scoped resources and for lists and watches over all namespaces. ``subresource`` is
    "" or a name like ``status`` or ``binding``. Every method raises `cathedra.api.status.StatusError` when the server
    refuses, and `ConnectionError` when it cannot be reached. An answer that is one object and cannot be decoded raises
    `cathedra.api.undecodable.UndecodableObject`; lists and watches go on without it (`Page.undecodable`).
    """

    async def get(self, ref: ResourceRef[T], namespace: str, name: str, *, subresource: str = "") -> T: ...

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]: ...

    def watch(
        self, ref: ResourceRef[T], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Changes after ``options.resource_version``, until the server ends the stream or the context is left."""
        ...

    async def create(
        self,
        ref: ResourceRef[T],
        namespace: str,
        obj: KubeObject,
        options: WriteOptions,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Any:
        """Create; with ``name`` and ``subresource`` a POST on a sub-resource (binding, eviction, token)."""
        ...

    async def update(
        self, ref: ResourceRef[T], namespace: str, obj: T, options: WriteOptions, *, subresource: str = ""
    ) -> T: ...

    async def patch(
        self,
        ref: ResourceRef[T],
        namespace: str,
        name: str,
        patch_type: PatchType,
        body: Any,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> T:
        """Patch with ``body`` as plain JSON values."""
        ...

    async def delete(self, ref: ResourceRef[T], namespace: str, name: str, options: DeleteOptions) -> T | None:
        """Delete; the object as it is now if it lives on (grace, finalizers), or its last state."""
        ...

    async def delete_collection(
        self, ref: ResourceRef[T], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None: ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
