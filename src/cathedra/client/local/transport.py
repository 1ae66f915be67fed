"""The verbs of the Kubernetes API over the binary protocol, as one user of a connection.

What `cathedra.client.transport` promises holds here as over HTTP; controllers, scheduler and nodes cannot tell.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject
from cathedra.api.struct import encode
from cathedra.client.local.connection import Connection
from cathedra.client.local.messages import LocalRequest, Options
from cathedra.client.transport import ListOptions, Page, PatchType, ResourceRef, WatchEvent, WriteOptions

__all__ = ["LocalTransport", "selection_options", "write_options"]

T = TypeVar("T", bound=KubeObject)

_NO_OPTIONS = Options()


class LocalTransport:
    """A `cathedra.client.transport.Transport` over a connection. Whatever opened its connection closes it."""

    def __init__(self, connection: Connection, token: str, *, agent: str = "cathedra") -> None:
        self._connection = connection
        self._user = connection.attach(token, agent)

    async def get(self, ref: ResourceRef[T], namespace: str, name: str, *, subresource: str = "") -> T:
        """One object."""
        found: T = await self._connection.request(self._request("get", ref, namespace, name, subresource))
        return found

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]:
        """The objects that match."""
        request = self._request("list", ref, namespace, options=selection_options(options))
        page: Page[T] = await self._connection.request(request, probe=options.probe)
        return page

    @asynccontextmanager
    async def watch(
        self, ref: ResourceRef[T], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes, until the server ends the stream."""
        chosen = msgspec.structs.replace(selection_options(options), bookmarks=bookmarks)
        request = self._request("watch", ref, namespace, options=chosen)
        watching = await self._connection.watch(request)
        try:
            yield watching.events()
        finally:
            watching.close()

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
        """Create an object, or POST to a sub-resource."""
        request = self._request("create", ref, namespace, name, subresource, write_options(options), encode(obj))
        return await self._connection.request(request)

    async def update(
        self, ref: ResourceRef[T], namespace: str, obj: T, options: WriteOptions, *, subresource: str = ""
    ) -> T:
        """Replace an object."""
        name = obj.metadata.name
        request = self._request("update", ref, namespace, name, subresource, write_options(options), encode(obj))
        updated: T = await self._connection.request(request)
        return updated

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
        """Patch an object."""
        chosen = write_options(options, patch_type.name)
        request = self._request("patch", ref, namespace, name, subresource, chosen, encode(body))
        patched: T = await self._connection.request(request)
        return patched

    async def delete(self, ref: ResourceRef[T], namespace: str, name: str, options: DeleteOptions) -> T | None:
        """Delete an object, or mark it."""
        request = self._request("delete", ref, namespace, name, body=encode(options))
        last: T | None = await self._connection.request(request)
        return last

    async def delete_collection(
        self, ref: ResourceRef[T], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None:
        """Delete all objects that match."""
        chosen = selection_options(list_options)
        request = self._request("deletecollection", ref, namespace, options=chosen, body=encode(options))
        await self._connection.request(request)

    async def close(self) -> None:
        """Nothing to let go of: the connection is that of other users too."""

    def _request(
        self,
        verb: str,
        ref: ResourceRef[KubeObject],
        namespace: str,
        name: str = "",
        subresource: str = "",
        options: Options = _NO_OPTIONS,
        body: bytes = b"",
    ) -> LocalRequest:
        connection = self._connection
        return LocalRequest(
            connection.next_id(),
            self._user,
            verb,
            ref.group,
            ref.version,
            ref.resource,
            namespace,
            name,
            subresource,
            connection.form_of(ref.type),
            options,
            body,
        )


def selection_options(options: ListOptions) -> Options:
    """Return what a list, a watch or the deletion of a collection chooses, as a request carries it."""
    return Options(
        label_selector=options.label_selector,
        field_selector=options.field_selector,
        limit=options.limit,
        continue_=options.continue_,
        resource_version=options.resource_version,
        resource_version_match=options.resource_version_match,
    )


def write_options(options: WriteOptions, patch_type: str = "") -> Options:
    """Return what a write chooses, as a request carries it."""
    return Options(
        dry_run=options.dry_run,
        field_manager=options.field_manager,
        field_validation=options.field_validation,
        force=options.force,
        patch_type=patch_type,
    )
