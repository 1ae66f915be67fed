"""The API in process with an audit log: each call is written down, as if it had come over HTTP.

The parts in the process of the API server call it without HTTP. Without this, the log of a cluster would lack what its
scheduler, controllers and simulated nodes did.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, encode
from cathedra.apiserver.local.records import Recorder
from cathedra.apiserver.traffic.record import RequestRecord
from cathedra.apiserver.transport import InProcessTransport
from cathedra.client.local.messages import LocalRequest, Options
from cathedra.client.local.transport import selection_options, write_options
from cathedra.client.transport import ListOptions, Page, PatchType, ResourceRef, WatchEvent, WriteOptions

__all__ = ["AuditedTransport"]

T = TypeVar("T", bound=KubeObject)
R = TypeVar("R")

_NO_OPTIONS: Final = Options()
_ABANDONED: Final = 499
"""The status of a call whose caller was cancelled."""


class AuditedTransport:
    """A transport to the server in this process, as one user, whose calls are in the audit log."""

    def __init__(self, inner: InProcessTransport, recorder: Recorder, agent: str) -> None:
        """``recorder`` writes the log; ``agent`` is the name of the part there."""
        self._inner = inner
        self._recorder = recorder
        self._agent = agent

    async def get(self, ref: ResourceRef[T], namespace: str, name: str, *, subresource: str = "") -> T:
        """One object."""
        record = self._begin("get", ref, namespace, name, subresource)
        way = self._inner.annotating(record.annotations)
        return await self._recorded(record, way.get(ref, namespace, name, subresource=subresource))

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]:
        """The objects that match."""
        record = self._begin("list", ref, namespace, options=selection_options(options))
        way = self._inner.annotating(record.annotations)
        return await self._recorded(record, way.list(ref, namespace, options))

    @asynccontextmanager
    async def watch(
        self, ref: ResourceRef[T], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes, until this server ends the stream."""
        record, status = self._begin("watch", ref, namespace, options=selection_options(options)), 200
        way = self._inner.annotating(record.annotations)
        try:
            async with way.watch(ref, namespace, options, bookmarks=bookmarks) as events:
                self._recorder.streams(record)
                yield events
        except StatusError as error:
            status = error.code
            raise
        finally:
            self._recorder.end(record, status)

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
        record = self._begin("create", ref, namespace, name, subresource, write_options(options), obj)
        way = self._inner.annotating(record.annotations)
        creating = way.create(ref, namespace, obj, options, name=name, subresource=subresource)
        return await self._recorded(record, creating, 201)

    async def update(
        self, ref: ResourceRef[T], namespace: str, obj: T, options: WriteOptions, *, subresource: str = ""
    ) -> T:
        """Replace an object."""
        metadata = obj.metadata
        place = namespace or metadata.namespace
        record = self._begin("update", ref, place, metadata.name, subresource, write_options(options), obj)
        way = self._inner.annotating(record.annotations)
        return await self._recorded(record, way.update(ref, namespace, obj, options, subresource=subresource))

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
        record = self._begin("patch", ref, namespace, name, subresource, chosen, body)
        way = self._inner.annotating(record.annotations)
        patching = way.patch(ref, namespace, name, patch_type, body, options, subresource=subresource)
        return await self._recorded(record, patching)

    async def delete(self, ref: ResourceRef[T], namespace: str, name: str, options: DeleteOptions) -> T | None:
        """Delete an object, or mark it."""
        record = self._begin("delete", ref, namespace, name, body=options)
        way = self._inner.annotating(record.annotations)
        return await self._recorded(record, way.delete(ref, namespace, name, options))

    async def delete_collection(
        self, ref: ResourceRef[T], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None:
        """Delete all objects that match."""
        chosen = selection_options(list_options)
        record = self._begin("deletecollection", ref, namespace, options=chosen, body=options)
        way = self._inner.annotating(record.annotations)
        await self._recorded(record, way.delete_collection(ref, namespace, list_options, options))

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The schemas of a group version; no request about a resource, and not written down."""
        return await self._inner.get_raw(path, query)

    async def close(self) -> None:
        """Do nothing: it holds no resources."""

    def _begin(
        self,
        verb: str,
        ref: ResourceRef[KubeObject],
        namespace: str,
        name: str = "",
        subresource: str = "",
        options: Options = _NO_OPTIONS,
        body: Any = None,
    ) -> RequestRecord:
        request = LocalRequest(
            0,
            0,
            verb,
            ref.group,
            ref.version,
            ref.resource,
            namespace if ref.namespaced else "",
            name,
            subresource,
            0,
            options,
            b"" if body is None else encode(body),
        )
        return self._recorder.begin(request, self._inner.user, self._agent)

    async def _recorded(self, record: RequestRecord, calling: Awaitable[R], status: int = 200) -> R:
        ended = _ABANDONED
        try:
            answer = await calling
            ended = status
            if isinstance(answer, KubeStruct):
                record.response_body = encode(answer)
                metadata = getattr(answer, "metadata", None)
                record.created_name = getattr(metadata, "name", "")
        except StatusError as error:
            ended = error.code
            raise
        finally:
            self._recorder.end(record, ended)
        return answer
