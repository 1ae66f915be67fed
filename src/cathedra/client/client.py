"""The verbs of the Kubernetes API on typed objects: what controllers, scheduler, node agent and driver call.

A `Client` is a `Transport` plus a name to write under. ``client.resource(PODS, "default")`` gives the verbs of one
resource in one namespace; every call raises `StatusError` when the server refuses and `ConnectionError` when it cannot
be reached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject, Preconditions
from cathedra.api.scheme import GroupVersionKind
from cathedra.client.negotiation import NegotiatedTransport
from cathedra.client.transport import ListOptions, Page, PatchType, ResourceRef, Transport, WatchEvent, WriteOptions
from cathedra.clock import Clock

__all__ = ["Client", "ResourceClient"]

T = TypeVar("T", bound=KubeObject)

REMEMBERED: Final = 256
"""So many resources are remembered with the namespace in which they were asked for last."""


class Client:
    """The Kubernetes API as one user and one field manager see it."""

    def __init__(self, transport: Transport, *, clock: Clock, field_manager: str = "") -> None:
        self.transport = transport
        self.clock = clock
        self.field_manager = field_manager
        self._options = WriteOptions(field_manager=field_manager)
        self._applying = msgspec.structs.replace(self._options, force=True)
        self._asked_last: dict[str, ResourceClient[Any]] = {}
        """What was asked for last by each name: a controller writes many objects of one kind and namespace."""
        self._negotiated = transport if isinstance(transport, NegotiatedTransport) else NegotiatedTransport(transport)

    def resource(self, ref: ResourceRef[T], namespace: str = "") -> ResourceClient[T]:
        """The verbs of one resource; ``namespace`` is "" for cluster-scoped kinds and for reads over all namespaces."""
        if ref.resource in self._asked_last:
            known = self._asked_last[ref.resource]
            if known.ref is ref and known.namespace == namespace:
                return known
        transport = self._negotiated.transport_of(ref)
        made = ResourceClient(transport, ref, namespace, self._options, self._applying)
        if transport is not self._negotiated:  # while the version is not known, the way may become another
            if len(self._asked_last) >= REMEMBERED:
                self._asked_last.clear()
            self._asked_last[ref.resource] = made
        return made

    def as_manager(self, field_manager: str) -> Client:
        """The same way to the server, writing under another name."""
        return Client(self._negotiated, clock=self.clock, field_manager=field_manager)

    def served_kind(self, gvk: GroupVersionKind) -> GroupVersionKind:
        """A kind as the server has it, in an older version perhaps; as it is where that is not known."""
        return self._negotiated.served_kind(gvk)

    async def read(self, path: str) -> bytes:
        """What the server answers on a path that is no resource, as ``/openapi/v3/api/v1``.

        Raises:
            StatusError: it refused; 404, also where the transport reads resources alone.
            ConnectionError: it cannot be reached.
        """
        return await self._negotiated.get_raw(path)

    async def close(self) -> None:
        """Let go of connections."""
        await self.transport.close()


class ResourceClient(msgspec.Struct, Generic[T], frozen=True):
    """The verbs of one resource in one namespace.

    Most of them hand on the transport's own coroutine: a write that is waited for is resumed through every layer.
    """

    transport: Transport
    ref: ResourceRef[T]
    namespace: str
    options: WriteOptions
    """How it writes, unless a call says more."""
    applying: WriteOptions
    """How it applies: it takes over whatever conflicts."""

    def get(self, name: str, *, subresource: str = "") -> Coroutine[Any, Any, T]:
        """The object of that name as it is now."""
        return self.transport.get(self.ref, self.namespace, name, subresource=subresource)

    def list(
        self,
        label_selector: str = "",
        field_selector: str = "",
        *,
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Coroutine[Any, Any, Page[T]]:
        """Objects that match both selectors, sorted by namespace and name."""
        options = ListOptions(
            label_selector, field_selector, limit, continue_, resource_version, resource_version_match
        )
        return self.transport.list(self.ref, self.namespace, options)

    def watch(
        self,
        label_selector: str = "",
        field_selector: str = "",
        *,
        resource_version: str = "",
        bookmarks: bool = True,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Changes after ``resource_version``, until the server ends the stream or the context is left."""
        options = ListOptions(label_selector, field_selector, resource_version=resource_version)
        return self.transport.watch(self.ref, self.namespace, options, bookmarks=bookmarks)

    def create(self, obj: T, *, dry_run: bool = False) -> Coroutine[Any, Any, T]:
        """Create ``obj``; the answer carries name, uid and defaults."""
        return self.transport.create(
            self.ref, self.namespace, obj, self._with(dry_run=True) if dry_run else self.options
        )

    def create_subresource(self, name: str, subresource: str, obj: KubeObject) -> Coroutine[Any, Any, Any]:
        """POST to a sub-resource, as a binding or an eviction; the answer is what that sub-resource answers."""
        return self.transport.create(self.ref, self.namespace, obj, self.options, name=name, subresource=subresource)

    def update(self, obj: T, *, subresource: str = "", dry_run: bool = False) -> Coroutine[Any, Any, T]:
        """Replace the object; with a ``metadata.resource_version`` only if it was not written in between."""
        options = self._with(dry_run=True) if dry_run else self.options
        return self.transport.update(self.ref, self.namespace, obj, options, subresource=subresource)

    def update_status(self, obj: T) -> Coroutine[Any, Any, T]:
        """Replace the object's status."""
        return self.transport.update(self.ref, self.namespace, obj, self.options, subresource="status")

    def patch(
        self, name: str, patch_type: PatchType, body: Any, subresource: str = "", *, dry_run: bool = False
    ) -> Coroutine[Any, Any, T]:
        """Change the object by a patch of plain JSON values."""
        options = self._with(dry_run=True) if dry_run else self.options
        return self.transport.patch(self.ref, self.namespace, name, patch_type, body, options, subresource=subresource)

    def apply(self, name: str, fields: Mapping[str, Any], subresource: str = "") -> Coroutine[Any, Any, T]:
        """Server-side apply of ``fields`` (plain JSON without kind and apiVersion), taking over whatever conflicts.

        Fields that this field manager applied before and that are missing now are removed.
        """
        gvk = GroupVersionKind(self.ref.group, self.ref.version, self.ref.kind)
        metadata = {**fields.get("metadata", {}), "name": name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        body = {**fields, "apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}
        return self.transport.patch(
            self.ref, self.namespace, name, PatchType.APPLY, body, self.applying, subresource=subresource
        )

    def delete(
        self,
        name: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        uid: str = "",
        resource_version: str = "",
    ) -> Coroutine[Any, Any, T | None]:
        """Delete; with ``uid`` or ``resource_version`` only that very object or state.

        Answers the object as it is now if it lives on (grace period, finalizers), or its last state.
        """
        options = _delete_options(grace_period_seconds, propagation_policy, uid, resource_version)
        return self.transport.delete(self.ref, self.namespace, name, options)

    def delete_collection(
        self,
        label_selector: str = "",
        field_selector: str = "",
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> Coroutine[Any, Any, None]:
        """Delete everything that matches both selectors."""
        options = _delete_options(grace_period_seconds, propagation_policy, "", "")
        selection = ListOptions(label_selector, field_selector)
        return self.transport.delete_collection(self.ref, self.namespace, selection, options)

    def _with(self, **changes: bool) -> WriteOptions:
        return msgspec.structs.replace(self.options, **changes)


def _delete_options(grace: int | None, propagation: str, uid: str, resource_version: str) -> DeleteOptions:
    preconditions = None
    if uid or resource_version:
        preconditions = Preconditions(uid=uid or None, resource_version=resource_version or None)
    return DeleteOptions(
        grace_period_seconds=grace, preconditions=preconditions, propagation_policy=propagation or None
    )
