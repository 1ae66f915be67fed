"""The transport of parts in the API server's process: frozen objects are passed by reference.

Scheduler, controllers and simulated nodes of a cluster in one process use it. It keeps the contract of
`cathedra.client.transport`, with the authorization, admission and validation of requests over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote, urlencode

from msgspec import structs

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject
from cathedra.api.decoding import decode_json
from cathedra.api.releasefields import of_release
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure, not_found
from cathedra.api.struct import KubeStruct, encode
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import always_allows
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE, Recorder
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call, note_problems, unfit
from cathedra.apiserver.requestinfo import request_info
from cathedra.apiserver.subresources.comparison import is_compared
from cathedra.apiserver.subresources.dispatch import connect_create
from cathedra.apiserver.subresources.reviews import REVIEWS
from cathedra.apiserver.verbs import create, delete, patch, read, update
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.denials import Denials
from cathedra.client.http import request_line
from cathedra.client.transport import APICall, Page, PatchType, ResourceRef, Verb, WatchEvent
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

__all__ = ["AuditedTransport", "InProcessTransport"]

_REVIEWED: Final = frozenset(resource.resource for resource in REVIEWS)
_NAMED: Final = frozenset({"get", "update", "patch", "delete"})
"""Verbs on one object."""


class InProcessTransport:
    """A `cathedra.client.transport.Transport` to the server in this process, as one user.

    Every write gives way to other tasks before it begins. A store in memory settles writes at once, and a client that
    writes in a loop would otherwise keep all others from running.
    """

    def __init__(
        self,
        server: ServerContext,
        catalog: Catalog,
        user: UserInfo,
        annotations: dict[str, str] | None = None,
        denials: Denials | None = None,
    ) -> None:
        """``annotations`` take what admission adds to the audit event of each call; refusals for want of a right are
        reported to ``denials``."""
        self._denials = denials
        self._server = server
        self._catalog = catalog
        self._user = user
        self._annotations = annotations
        self._trusted = always_allows(server.authorizer, user)

    @property
    def user(self) -> UserInfo:
        """The user."""
        return self._user

    def annotating(self, annotations: dict[str, str]) -> InProcessTransport:
        """The same user, for calls whose audit event gets these annotations."""
        return InProcessTransport(self._server, self._catalog, self._user, annotations, self._denials)

    def check(self, call: APICall) -> None:
        """Authorize a call without carrying it out, so that only users with the right are told what is wrong with it.

        Raises:
            StatusError: 403, the user lacks the right; 404, the resource is not served.
        """
        self._begin(call)

    def call(self, call: APICall) -> Coroutine[Any, Any, Any]:
        """Carry out a call."""
        # Not async itself: the verb's own coroutine is returned, so that a write which waits has one layer less.
        return _VERBS[call.verb](self, call)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until this server ends the stream. There are no bookmarks: the stream cannot break."""
        begun, start = self.start_watch(call)
        try:
            yield self._events(begun, start)
        finally:
            start.stop()

    def start_watch(self, call: APICall) -> tuple[Call, read.WatchStart]:
        """Begin a watch whose events the caller takes from its watcher; the caller stops it.

        Raises:
            StatusError: it is refused, or its resource version is too old.
        """
        begun = self._begin(call)
        return begun, read.start_watch(self._server, begun, call.selection)

    def stored(self, definition: AnyDefinition, namespace: str, name: str) -> StoredObject | None:
        """Return what is stored under a name, without authorization: for the server's own use only."""
        key = f"{namespace}/{name}" if namespace and definition.namespaced else name
        return self._server.registry.entry(definition.stored_as or definition.group_resource, key)

    async def _get(self, asked: APICall) -> Any:
        call = self._begin(asked)
        await self._server.registry.catch_up()
        return (await self._server.seen_one(call, read.get(self._server, call))).view(call.version)

    async def _list(self, asked: APICall) -> Page[Any]:
        call = self._begin(asked)
        registry = self._server.registry
        if read.needs_latest(asked.selection.resource_version, registry.revision):
            await registry.catch_up()
        page = read.list_objects(self._server, call, asked.selection)
        version = call.version
        entries = await self._server.seen(call, page.entries)
        return Page(tuple(entry.view(version) for entry in entries), str(page.revision), page.continue_, page.remaining)

    async def _create(self, asked: APICall) -> Any:
        call, obj = self._begin(asked), asked.body
        await asyncio.sleep(0)  # see the class
        if not is_compared("create", call.resource, call.subresource):
            await self._server.registry.catch_up()
        if asked.ref.resource in _REVIEWED and (review := REVIEWS.get(call.resource)) is not None:
            return review.answer(self._server, call, obj)
        if call.subresource:
            return await connect_create(self._server, call, obj)
        return (await create.create(self._server, call, _hub(call, obj))).view(call.version)

    async def _update(self, asked: APICall) -> Any:
        call = self._begin(asked, namespace=asked.namespace or asked.body.metadata.namespace)
        await asyncio.sleep(0)  # see the class
        outcome = await update.update(self._server, call, _hub(call, asked.body))
        return outcome.entry.view(call.version)

    async def _patch(self, asked: APICall) -> Any:
        call = self._begin(asked)
        await asyncio.sleep(0)  # see the class
        outcome = await patch.patch(self._server, call, asked.patch_type or PatchType.MERGE, asked.body)
        return outcome.entry.view(call.version)

    async def _delete(self, asked: APICall) -> Any:
        options: DeleteOptions = asked.body
        call = self._begin(asked, dry_run=bool(options.dry_run))
        await asyncio.sleep(0)  # see the class
        return (await delete.delete(self._server, call, options)).entry.view(call.version)

    async def _delete_collection(self, asked: APICall) -> None:
        options: DeleteOptions = asked.body
        call, chosen = self._begin(asked, dry_run=bool(options.dry_run)), asked.selection
        selection = Selection.parse(call.definition, asked.namespace, chosen.label_selector, chosen.field_selector)
        await self._server.registry.catch_up()
        await delete.delete_collection(self._server, call, selection, options)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The schemas of a group version, as on ``/openapi/v3/apis/apps/v1``.

        Raises:
            StatusError: 404, the path is another one.
        """
        from cathedra.apiserver.openapi.document import Documents  # start-up time: few clients ask

        documents = Documents(self._catalog, self._server.gates.release)
        named = {
            f"/openapi/v3/apis/{one[0]}/{one[1]}" if one[0] else f"/openapi/v3/api/{one[1]}": one
            for one in documents.group_versions()
        }
        if path in named:
            group, version = named[path]
            return await self._server.computations.compute(
                lambda limit: encode(documents.group_version(group, version, limit.check)), self._user.name
            )
        raise failure(404, "NotFound", "the server could not find the requested resource")

    async def close(self) -> None:
        """Do nothing: it holds no resources."""

    def _begin(self, asked: APICall, *, namespace: str = "", dry_run: bool = False) -> Call:
        """Find the resource that is called and authorize the call.

        Raises:
            StatusError: 403, the user lacks the right; 404, the resource is not served.
        """
        ref, verb, name, subresource, options = asked.ref, asked.verb, asked.name, asked.subresource, asked.options
        route = self._catalog.by_key.get((ref.group, ref.version, ref.resource, subresource))
        if route is not None and route.definition and route.served:
            definition, version = route.definition, route.served
        else:
            definition, version = _reviewed(ref, subresource)
        if not name and verb in _NAMED:
            raise not_found(GroupResource(ref.group, ref.resource), name)
        call = Call(
            user=self._user,
            verb=verb,
            definition=definition,
            version=version,
            namespace=(namespace or asked.namespace) if definition.namespaced else "",
            name=name,
            subresource=subresource,
            release=self._server.gates.release,
            dry_run=dry_run or options.dry_run,
            field_manager=options.field_manager,
            field_validation=options.field_validation,
            force=options.force,
            annotations={} if self._annotations is None else self._annotations,
            trusted=self._trusted,
        )
        if not self._trusted:
            selection = asked.selection
            try:
                self._server.authorize(
                    call, label_selector=selection.label_selector, field_selector=selection.field_selector
                )
            except StatusError as error:
                if self._denials is not None and not selection.probe:
                    self._denials.note(error)
                raise
        return call

    async def _events(self, call: Call, start: read.WatchStart) -> AsyncIterator[WatchEvent[Any]]:
        version = call.version
        for seen in start.initial_events():
            entry = await self._server.seen_one(call, seen.entry)
            yield WatchEvent(seen.type, entry.view(version))
        converted = call.definition.conversion is not None
        while batch := await start.watcher.take():
            for seen in batch:
                entry = await self._server.seen_one(call, seen.entry) if converted else seen.entry
                obj = entry.object
                yield WatchEvent(seen.type, obj if type(obj) is version.type else entry.view(version))


class AuditedTransport:
    """An `InProcessTransport` whose calls are in the audit log, as if they had come over HTTP.

    Without it, the log of a cluster would lack what scheduler, controllers and simulated nodes in this process did.
    """

    def __init__(self, inner: InProcessTransport, recorder: Recorder, agent: str) -> None:
        """``recorder`` writes the log; ``agent`` is the part's user agent in it."""
        self._inner = inner
        self._recorder = recorder
        self._agent = agent

    async def call(self, call: APICall) -> Any:
        """Carry out a call and log it."""
        record = self._begin(call)
        record.status = CLIENT_GONE
        try:
            answer = await self._inner.annotating(record.annotations).call(call)
            record.status = 201 if call.verb == "create" else 200
            if isinstance(answer, KubeStruct):
                record.response_body = encode(answer)
                metadata = getattr(answer, "metadata", None)
                record.created_name = getattr(metadata, "name", "")
        except StatusError as error:
            record.status = error.code
            raise
        finally:
            # Also when the caller is cancelled: an audit event that has begun must be completed.
            self._recorder.end(record)
        return answer

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes; the log shows the begin and the end of the stream."""
        record, status = self._begin(call), 200
        try:
            async with self._inner.annotating(record.annotations).watch(call) as events:
                self._recorder.started(record, status)
                yield events
        except StatusError as error:
            status = error.code
            raise
        finally:
            record.status = status
            self._recorder.end(record)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the schemas of a group version. It is not logged: it is no request on a resource."""
        return await self._inner.get_raw(path, query)

    async def close(self) -> None:
        """Do nothing: it holds no resources."""

    def _begin(self, call: APICall) -> RequestRecord:
        if call.verb == "update" and not call.namespace:
            call = structs.replace(call, namespace=call.body.metadata.namespace)
        method, path, query = request_line(call)
        recorder = self._recorder
        info = request_info(method, unquote(path), watch=call.verb == "watch")
        record = recorder.record(info, urlencode(query).encode())
        record.user = record.acting = self._inner.user
        record.user_agent = self._agent
        record.content_type = "" if call.patch_type is None else call.patch_type.value
        record.field_selector, record.label_selector = call.selection.field_selector, call.selection.label_selector
        recorder.begin(record)
        with contextlib.suppress(StatusError):
            # Only for the log: the transport itself refuses the call. The body of a denied request is not logged.
            recorder.authorize(record)
            record.request_body = b"" if call.body is None else encode(call.body)
        return record


def _of_release(call: Call, obj: KubeObject) -> KubeObject:
    """Return the object without fields that the release does not know, as the decoder does over HTTP.

    Raises:
        StatusError: 400, it has such fields, and validation is strict.
    """
    fitted = of_release(obj, call.release)
    if fitted is not obj:
        problems = decode_json(type(obj), call.gvk, encode(obj), call.release).problems
        note_problems(call, problems, lambda text: unfit(call.gvk, text))
    return fitted


def _reviewed(ref: ResourceRef[KubeObject], subresource: str) -> tuple[AnyDefinition, VersionDefinition]:
    """What is served without being stored, as reviews of access.

    Raises:
        StatusError: 404, there is nothing of that name.
    """
    review = None if subresource else REVIEWS.get(GroupResource(ref.group, ref.resource))
    if review is None:
        raise failure(404, "NotFound", "the server could not find the requested resource", None)
    return review.definition, review.definition.versions[0]


def _hub(call: Call, obj: KubeObject) -> Any:
    """Return a written object in the version that is stored."""
    fitted = _of_release(call, obj)
    return fitted if type(fitted) is call.definition.type else call.version.to_hub(fitted)


_VERBS: Final[Mapping[Verb, Callable[[InProcessTransport, APICall], Coroutine[Any, Any, Any]]]] = {
    "get": InProcessTransport._get,
    "list": InProcessTransport._list,
    "create": InProcessTransport._create,
    "update": InProcessTransport._update,
    "patch": InProcessTransport._patch,
    "delete": InProcessTransport._delete,
    "deletecollection": InProcessTransport._delete_collection,
}
