"""The API in process: the same verbs as over HTTP, with frozen objects passed by reference.

Scheduler, controllers and simulated nodes in one process with the server use it; they cannot tell it from HTTP, except
by speed (spec of the interface: `cathedra.client.transport`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject
from cathedra.api.decoding import decode_json
from cathedra.api.releasefields import of_release
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure, not_found
from cathedra.api.struct import encode
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import always_allows
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call, note_problems, unfit
from cathedra.apiserver.subresources.comparison import is_compared
from cathedra.apiserver.subresources.dispatch import connect_create
from cathedra.apiserver.subresources.reviews import REVIEWS
from cathedra.apiserver.verbs import create, delete, patch, read, update
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.denials import Denials
from cathedra.client.transport import ListOptions, Page, PatchType, ResourceRef, WatchEvent, WriteOptions
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

__all__ = ["InProcessTransport"]

T = TypeVar("T", bound=KubeObject)

_NO_OPTIONS: Final = WriteOptions()
_REVIEWED: Final = frozenset(resource.resource for resource in REVIEWS)


class InProcessTransport:
    """A `cathedra.client.transport.Transport` to the server in this process, as one user."""

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
        self._waits = server.registry.writes_wait
        """Whether a write waits before it begins."""
        self._lags = server.registry.lags

    @property
    def user(self) -> UserInfo:
        """The user."""
        return self._user

    def annotating(self, annotations: dict[str, str]) -> InProcessTransport:
        """The same user, for calls whose audit event gets these annotations."""
        return InProcessTransport(self._server, self._catalog, self._user, annotations, self._denials)

    def check(self, verb: str, ref: ResourceRef[Any], namespace: str, name: str, subresource: str) -> None:
        """Whether the user may do something, before it is said what else is wrong with it.

        Raises:
            StatusError: 403, the user may not; 404, there is no such place.
        """
        self._call(verb, ref, namespace, name, subresource)

    async def get(self, ref: ResourceRef[T], namespace: str, name: str, *, subresource: str = "") -> T:
        """One object."""
        call = self._call("get", ref, namespace, name, subresource)
        if self._server.registry.shared:
            await self._server.registry.catch_up()
        found: T = (await self._server.seen_one(call, read.get(self._server, call))).view(call.version)
        return found

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]:
        """The objects that match."""
        call = self._call(
            "list",
            ref,
            namespace,
            label_selector=options.label_selector,
            field_selector=options.field_selector,
            probe=options.probe,
        )
        registry = self._server.registry
        if registry.shared and read.needs_latest(options.resource_version, registry.revision):
            await registry.catch_up()
        page = read.list_objects(self._server, call, options)
        version = call.version
        entries = await self._server.seen(call, page.entries)
        return Page(tuple(entry.view(version) for entry in entries), str(page.revision), page.continue_, page.remaining)

    @asynccontextmanager
    async def watch(
        self, ref: ResourceRef[T], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes, until this server ends the stream. No bookmarks: nothing can break the stream in between."""
        call, start = self.start_watch(ref, namespace, options)
        try:
            yield self._events(call, start)
        finally:
            start.stop()

    def stored(self, definition: AnyDefinition, namespace: str, name: str) -> StoredObject | None:
        """What is stored under a name, for the server alone: it is not asked whether the user may see it."""
        key = f"{namespace}/{name}" if namespace and definition.namespaced else name
        return self._server.registry.entry(definition.stored_as or definition.group_resource, key)

    def start_watch(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> tuple[Call, read.WatchStart]:
        """A watch under way, for a caller who takes events off its watcher and stops it.

        Raises:
            StatusError: it is refused, or begins too late.
        """
        call = self._call(
            "watch", ref, namespace, label_selector=options.label_selector, field_selector=options.field_selector
        )
        return call, read.start_watch(self._server, call, options)

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
        call = self._call("create", ref, namespace, name, subresource, options=options)
        if self._waits:
            await self._turn()
        elif self._lags and not is_compared("create", call.resource, subresource):
            await self._server.registry.catch_up()
        if ref.resource in _REVIEWED and (review := REVIEWS.get(call.resource)) is not None:
            return review.answer(self._server, call, obj)
        if subresource:
            return await connect_create(self._server, call, obj)
        obj = _of_release(call, obj)
        hub = obj if type(obj) is call.definition.type else call.version.to_hub(obj)
        entry = await create.create(self._server, call, hub)
        return entry.view(call.version)

    async def update(
        self, ref: ResourceRef[T], namespace: str, obj: T, options: WriteOptions, *, subresource: str = ""
    ) -> T:
        """Replace an object."""
        metadata = obj.metadata
        call = self._call("update", ref, namespace or metadata.namespace, metadata.name, subresource, options=options)
        if self._waits:
            await self._turn()
        fitted = _of_release(call, obj)
        hub = fitted if type(fitted) is call.definition.type else call.version.to_hub(fitted)
        outcome = await update.update(self._server, call, hub)
        updated: T = outcome.entry.view(call.version)
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
        call = self._call("patch", ref, namespace, name, subresource, options=options)
        if self._waits:
            await self._turn()
        outcome = await patch.patch(self._server, call, patch_type, body)
        patched: T = outcome.entry.view(call.version)
        return patched

    async def delete(self, ref: ResourceRef[T], namespace: str, name: str, options: DeleteOptions) -> T | None:
        """Delete an object, or mark it."""
        call = self._call("delete", ref, namespace, name, options=WriteOptions(dry_run=bool(options.dry_run)))
        if self._waits:
            await self._turn()
        last: T = (await delete.delete(self._server, call, options)).entry.view(call.version)
        return last

    async def delete_collection(
        self, ref: ResourceRef[T], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None:
        """Delete all objects that match."""
        call = self._call(
            "deletecollection",
            ref,
            namespace,
            options=WriteOptions(dry_run=bool(options.dry_run)),
            label_selector=list_options.label_selector,
            field_selector=list_options.field_selector,
        )
        selection = Selection.parse(
            call.definition, namespace, list_options.label_selector, list_options.field_selector
        )
        if self._server.registry.shared:
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

    async def _turn(self) -> None:
        """Wait until a write may begin: others have had their turn, what other servers acknowledged is here."""
        if self._server.registry.settles_at_once:
            await asyncio.sleep(0)
        await self._server.registry.catch_up()

    def _call(
        self,
        verb: str,
        ref: ResourceRef[KubeObject],
        namespace: str,
        name: str = "",
        subresource: str = "",
        *,
        options: WriteOptions = _NO_OPTIONS,
        label_selector: str = "",
        field_selector: str = "",
        probe: bool = False,
    ) -> Call:
        route = self._catalog.by_key.get((ref.group, ref.version, ref.resource, subresource))
        if route is not None and route.definition and route.served:
            definition, version = route.definition, route.served
        else:
            definition, version = _reviewed(ref, subresource)
        if not name and verb not in {"list", "watch", "deletecollection", "create"}:
            raise not_found(GroupResource(ref.group, ref.resource), name)
        call = Call(
            user=self._user,
            verb=verb,
            definition=definition,
            version=version,
            namespace=namespace if definition.namespaced else "",
            name=name,
            subresource=subresource,
            release=self._server.gates.release,
            dry_run=options.dry_run,
            field_manager=options.field_manager,
            field_validation=options.field_validation,
            force=options.force,
            annotations={} if self._annotations is None else self._annotations,
            trusted=self._trusted,
        )
        if not self._trusted:
            try:
                self._server.authorize(call, label_selector=label_selector, field_selector=field_selector)
            except StatusError as error:
                if self._denials is not None and not probe:
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


def _of_release(call: Call, obj: T) -> T:
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
