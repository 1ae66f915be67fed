"""The Kubernetes API as a typed client, for controllers, scheduler, node agent and driver.

A `Client` is a `Transport` with a field manager. ``client.resource(PODS, "default")`` returns the verbs of one resource
in one namespace. Every verb raises `StatusError` if the server refuses, and `ConnectionError` if it cannot be reached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject, Preconditions
from cathedra.api.scheme import GroupVersionKind
from cathedra.client.negotiation import NegotiatedTransport
from cathedra.client.transport import (
    APICall,
    ListOptions,
    Page,
    PatchType,
    ResourceRef,
    Transport,
    WatchEvent,
    WriteOptions,
)
from cathedra.clock import Clock

__all__ = ["Client", "ResourceClient"]

T = TypeVar("T", bound=KubeObject)

REMEMBERED: Final = 256
"""Bound of the cache of resource clients."""


class Client:
    """The Kubernetes API as one user, writing as one field manager."""

    def __init__(self, transport: Transport, *, clock: Clock, field_manager: str = "") -> None:
        self.transport = transport
        self.clock = clock
        self.field_manager = field_manager
        self._options = WriteOptions(field_manager=field_manager)
        self._applying = msgspec.structs.replace(self._options, force=True)
        self._last: dict[str, ResourceClient[Any]] = {}
        """The resource client that was returned last for each plural. A controller writes many objects of one kind in
        one namespace, so one entry per plural suffices."""
        self._negotiated = transport if isinstance(transport, NegotiatedTransport) else NegotiatedTransport(transport)

    def resource(self, ref: ResourceRef[T], namespace: str = "") -> ResourceClient[T]:
        """Return the verbs of one resource.

        ``namespace`` is empty for cluster-scoped kinds and for reads over all namespaces.
        """
        known = self._last.get(ref.resource)
        # By identity: references are constants, and comparing five fields would cost as much as a new client.
        if known is not None and known.ref is ref and known.namespace == namespace:
            return known
        transport = self._negotiated.transport_of(ref)
        made = ResourceClient(transport, ref, namespace, self._options, self._applying)
        # Not cached before the served version is known: until then calls must pass through the negotiation.
        if transport is not self._negotiated:
            if len(self._last) >= REMEMBERED:
                # A program that lists every custom kind must not keep a client for each.
                self._last.clear()
            self._last[ref.resource] = made
        return made

    def as_manager(self, field_manager: str) -> Client:
        """Return a client on the same connection that writes as another field manager."""
        # The negotiated transport is shared, so the served versions are found out once for all managers.
        return Client(self._negotiated, clock=self.clock, field_manager=field_manager)

    def served_kind(self, gvk: GroupVersionKind) -> GroupVersionKind:
        """Return the kind in the version that the server has; unchanged as long as that is unknown."""
        return self._negotiated.served_kind(gvk)

    async def read(self, path: str) -> bytes:
        """GET a path that is no resource, as ``/openapi/v3/api/v1``, and return the body.

        Raises:
            StatusError: the server refuses; 404 also if the transport reads resources only.
            ConnectionError: the server cannot be reached.
        """
        return await self._negotiated.get_raw(path)

    async def close(self) -> None:
        """Close the transport's connections."""
        await self.transport.close()


class ResourceClient(msgspec.Struct, Generic[T], frozen=True):
    """The verbs of one resource in one namespace.

    Each method returns the transport's own coroutine: a coroutine around it would be resumed once more for every wait
    below it.
    """

    transport: Transport
    ref: ResourceRef[T]
    namespace: str
    options: WriteOptions
    """Options of every write, unless an argument overrides them."""
    applying: WriteOptions
    """Options of server-side apply: with force."""

    def get(self, name: str, *, subresource: str = "") -> Coroutine[Any, Any, T]:
        """Return the object of that name."""
        return self.transport.call(APICall("get", self.ref, self.namespace, name, subresource))

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
        """Return the objects that match both selectors, sorted by namespace and name."""
        selection = ListOptions(
            label_selector, field_selector, limit, continue_, resource_version, resource_version_match
        )
        return self.transport.call(APICall("list", self.ref, self.namespace, selection=selection))

    def watch(
        self,
        label_selector: str = "",
        field_selector: str = "",
        *,
        resource_version: str = "",
        bookmarks: bool = True,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Stream changes after ``resource_version``, until the server ends the stream or the context exits."""
        selection = ListOptions(label_selector, field_selector, resource_version=resource_version, bookmarks=bookmarks)
        return self.transport.watch(APICall("watch", self.ref, self.namespace, selection=selection))

    def create(self, obj: T, *, dry_run: bool = False) -> Coroutine[Any, Any, T]:
        """Create ``obj`` and return it with name, UID and defaults."""
        options = self._with(dry_run=True) if dry_run else self.options
        return self.transport.call(APICall("create", self.ref, self.namespace, body=obj, options=options))

    def create_subresource(self, name: str, subresource: str, obj: KubeObject) -> Coroutine[Any, Any, Any]:
        """POST to a sub-resource, as a binding or an eviction, and return the object that the server returns."""
        return self.transport.call(
            APICall("create", self.ref, self.namespace, name, subresource, obj, options=self.options)
        )

    def update(self, obj: T, *, subresource: str = "", dry_run: bool = False) -> Coroutine[Any, Any, T]:
        """Replace the object; with a ``metadata.resource_version`` only if it was not written in between."""
        options = self._with(dry_run=True) if dry_run else self.options
        return self.transport.call(
            APICall("update", self.ref, self.namespace, obj.metadata.name, subresource, obj, options=options)
        )

    def update_status(self, obj: T) -> Coroutine[Any, Any, T]:
        """Replace the object's status."""
        return self.transport.call(
            APICall("update", self.ref, self.namespace, obj.metadata.name, "status", obj, options=self.options)
        )

    def patch(
        self, name: str, patch_type: PatchType, body: Any, subresource: str = "", *, dry_run: bool = False
    ) -> Coroutine[Any, Any, T]:
        """Change the object by a patch of plain JSON values."""
        options = self._with(dry_run=True) if dry_run else self.options
        return self.transport.call(
            APICall("patch", self.ref, self.namespace, name, subresource, body, patch_type, options)
        )

    def apply(self, name: str, fields: Mapping[str, Any], subresource: str = "") -> Coroutine[Any, Any, T]:
        """Server-side apply of ``fields`` (plain JSON without kind and apiVersion), taking over whatever conflicts.

        Fields that this field manager applied before and that are missing now are removed.
        """
        ref = self.ref
        # The server requires the name in an applied body, and it must be that of the URL.
        metadata = {**fields.get("metadata", {}), "name": name}
        if self.namespace:
            metadata["namespace"] = self.namespace
        body = {**fields, "apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata}
        return self.transport.call(
            APICall("patch", ref, self.namespace, name, subresource, body, PatchType.APPLY, self.applying)
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
        """Delete the object; ``uid`` and ``resource_version`` are preconditions.

        Return the object as it is now if it lives on (grace period, finalizers), or its last state.
        """
        options = _delete_options(grace_period_seconds, propagation_policy, uid, resource_version)
        return self.transport.call(APICall("delete", self.ref, self.namespace, name, body=options))

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
        return self.transport.call(
            APICall("deletecollection", self.ref, self.namespace, body=options, selection=selection)
        )

    def _with(self, **changes: bool) -> WriteOptions:
        return msgspec.structs.replace(self.options, **changes)


def _delete_options(grace: int | None, propagation: str, uid: str, resource_version: str) -> DeleteOptions:
    preconditions = None
    if uid or resource_version:
        preconditions = Preconditions(uid=uid or None, resource_version=resource_version or None)
    return DeleteOptions(
        grace_period_seconds=grace, preconditions=preconditions, propagation_policy=propagation or None
    )
