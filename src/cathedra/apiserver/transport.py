"""The transport of parts in the API server's process: frozen objects are passed by reference.

Scheduler, controllers and simulated nodes of a cluster in one process use it. It keeps the contract of
`cathedra.client.transport`, with the authorization, admission and validation of requests over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlencode

from msgspec import structs

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import decode_json
from cathedra.api.releasefields import readers
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure, not_found
from cathedra.api.struct import encode
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import always_allows
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.pipeline.consistency import judged_again
from cathedra.apiserver.pipeline.operations import ResourceOperations
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE, Recorder
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.request import Call, CallAnswer, note_problems, unfit
from cathedra.apiserver.requestinfo import request_info
from cathedra.apiserver.subresources.dispatch import is_compared
from cathedra.apiserver.subresources.reviews import REVIEWS
from cathedra.apiserver.verbs import create, delete, patch, read, update
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.denials import Denials
from cathedra.client.http import request_line
from cathedra.client.transport import APICall, BatchedEvents, Page, PatchType, ResourceRef, WatchEvent
from cathedra.kinds.definition import AnyDefinition, Strategy, VersionDefinition
from cathedra.releases import git_version

_READS: Final = frozenset({"get", "list"})
_GIVE_WAY: Final = frozenset({"create", "update", "patch", "delete"})
"""Writes of one object."""
_NAMED: Final = frozenset({"get", "update", "patch", "delete"})
"""Verbs on one object."""


class InProcessTransport:
    """A `cathedra.client.transport.Transport` to the server in this process, as one user.

    It authorizes each call and carries it out as requests over HTTP are (`cathedra.apiserver.pipeline`), without seats
    and deadlines: a part in this process that waited for them could only wait for itself.

    If the store is in memory, it settles writes at once, and a client that writes in a loop would keep all others from
    running. Then every write gives way to other tasks before it begins. With a store on disk that would cost a turn of
    the loop for each write, a twentieth of a pod.
    """

    def __init__(
        self,
        server: ServerContext,
        catalog: Catalog,
        user: UserInfo,
        *,
        denials: Denials | None = None,
        recorder: Recorder | None = None,
        agent: str = "",
    ) -> None:
        """Refusals for want of a right are reported to ``denials``. With a ``recorder``, which a `WrappedTransport` may
        have, every call is in the audit log, as if it had come over HTTP with ``agent`` as its user agent."""
        self._denials = denials
        self._server = server
        self._catalog = catalog
        self._operations = ResourceOperations(server, catalog)
        self._user = user
        self._recorder = recorder
        self._agent = agent
        self._trusted = always_allows(server.authorizer, user)
        self._release = server.gates.release
        self._readers = readers(self._release)
        self._gives_way = server.registry.settles_at_once
        self._is_shared = server.registry.shared

    @property
    def user(self) -> UserInfo:
        """The user of all calls."""
        return self._user

    async def call(self, call: APICall, record: RequestRecord | None = None) -> Any:
        """Carry out a call, and note its outcome in ``record``."""
        # Not a coroutine for each verb: every write that waits would have one layer more.
        server, verb, body = self._server, call.verb, call.body
        if verb == "update" and not call.namespace:
            call = structs.replace(call, namespace=body.metadata.namespace)
        begun = self._begin(call, record)
        if self._gives_way and verb in _GIVE_WAY:
            await asyncio.sleep(0)
        if verb == "update":
            answer = await update.update(server, begun, self._known(begun, body))
        elif verb == "create":
            if self._is_shared and not is_compared("create", begun.resource, begun.subresource):
                await server.registry.catch_up()
            answer = await self._create(begun, body)
        elif verb == "patch":
            answer = await patch.patch(server, begun, call.patch_type or PatchType.MERGE, body)
        elif verb == "delete":
            answer = await delete.delete(server, begun, body)
        elif verb == "get":
            await server.registry.catch_up()
            answer = await self._operations.get(begun)
        else:
            return await self._of_collection(begun, call, record)
        return _shown(answer, record)

    def _create(self, call: Call, body: Any) -> Coroutine[Any, Any, CallAnswer]:
        """Create an object, or carry out what a creation means for a sub-resource or a review."""
        if call.subresource or call.definition.group_resource in REVIEWS:
            return self._operations.create(call, body)
        return create.create(self._server, call, self._known(call, body))

    def _known(self, call: Call, body: Any) -> Any:
        """Return an object without the fields that the release does not know, and note these.

        Raises:
            StatusError: 400, it has such fields, and validation is strict.
        """
        obj = self._readers[type(body)](body)
        if obj is not body:
            # As the decoder does over HTTP.
            problems = decode_json(type(body), call.gvk, encode(body), call.release).problems
            note_problems(call, problems, partial(unfit, call.gvk))
        return obj

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until this server ends the stream. There are no bookmarks: the stream cannot break."""
        recorder = self._recorder
        record = None if recorder is None else self._record(call, recorder)
        status = 200
        try:
            begun = self._begin(call, record)
            start = self._operations.watch(begun, call.selection)
            try:
                if recorder is not None and record is not None:
                    recorder.started(record, status)
                yield BatchedEvents(self._operations.events(begun, start))
            finally:
                start.stop()
        except StatusError as error:
            status = error.code
            raise
        finally:
            if recorder is not None and record is not None:
                record.status = status
                recorder.end(record)

    async def _of_collection(self, call: Call, asked: APICall, record: RequestRecord | None) -> Page[Any] | None:
        """List objects, or delete them."""
        registry, version, deletes = self._server.registry, call.version, asked.verb == "deletecollection"
        if deletes or read.needs_latest(asked.selection.resource_version, registry.revision):
            await registry.catch_up()
        if deletes:
            answer = await self._operations.delete_collection(call, asked.selection, asked.body)
        else:
            answer = await self._operations.list(call, asked.selection)
        if record is not None:
            record.status = answer.status
        page = answer.listing
        if deletes or page is None:
            return None
        return Page(
            tuple(entry.view(version) for entry in page.entries), str(page.revision), page.continue_, page.remaining
        )

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the version of the server, or the schemas of a group version, as on ``/openapi/v3/apis/apps/v1``.

        Raises:
            StatusError: 404, the path is another one.
        """
        if path == "/version":
            return encode({"gitVersion": git_version(self._server.gates.release)})
        from cathedra.apiserver.openapi.document import Documents  # start-up time: few clients read it

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

    def _record(self, call: APICall, recorder: Recorder) -> RequestRecord:
        """Return the record of a call, as if it had come over HTTP."""
        if call.verb == "update" and not call.namespace:
            call = structs.replace(call, namespace=call.body.metadata.namespace)
        method, path, query = request_line(call)
        info = request_info(method, unquote(path), watch=call.verb == "watch")
        record = recorder.record(info, urlencode(query).encode())
        record.user = record.acting = self._user
        record.trusted = self._trusted
        record.user_agent = self._agent
        record.content_type = "" if call.patch_type is None else call.patch_type.value
        record.field_selector, record.label_selector = call.selection.field_selector, call.selection.label_selector
        recorder.begin(record)
        return record

    def _begin(self, asked: APICall, record: RequestRecord | None) -> Call:
        """Find the resource that is called and authorize the call.

        Raises:
            StatusError: 403, the user lacks the right; 404, the resource is not served.
        """
        ref, name, subresource = asked.ref, asked.name, asked.subresource
        route = self._catalog.by_key.get((ref.group, ref.version, ref.resource, subresource))
        if (
            route is None
            or (definition := route.definition) is None
            or (version := route.served) is None
            or (strategy := route.strategy) is None
        ):
            definition, version, strategy = _reviewed(ref, subresource)
        verb, options = asked.verb, asked.options
        if not name and verb in _NAMED:
            raise not_found(GroupResource(ref.group, ref.resource), name)
        call = Call(
            self._user,
            verb,
            definition,
            version,
            strategy,
            asked.namespace if definition.namespaced else "",
            name,
            subresource,
            self._release,
            self._trusted,
            options.dry_run,
            options.field_manager,
            options.field_validation,
            options.force,
        )
        if record is not None:
            call = call.but(annotations=record.annotations)
            self._authorize(asked, call, record)
        elif not self._trusted:
            self._authorize(asked, call, None)
        return call

    def _authorize(self, asked: APICall, call: Call, record: RequestRecord | None) -> None:
        selection = asked.selection
        try:
            if record is None or self._recorder is None:
                self._server.authorize(
                    call, label_selector=selection.label_selector, field_selector=selection.field_selector
                )
                return
            self._recorder.authorize(record)
        except StatusError as error:
            if self._denials is not None and not selection.probe:
                self._denials.note(error)
            raise
        # Not earlier: as over HTTP, the body of a request that was denied has not been read.
        record.request_body = b"" if asked.body is None else encode(asked.body)


class WrappedTransport(InProcessTransport):
    """An `InProcessTransport` whose calls are logged, or repeated after writes of other servers on the same store."""

    def call(self, call: APICall, record: RequestRecord | None = None) -> Coroutine[Any, Any, Any]:
        """Carry out a call."""
        return self._carried_out(call, record) if self._recorder is None else self._logged(call, self._recorder)

    async def _logged(self, call: APICall, recorder: Recorder) -> Any:
        record = self._record(call, recorder)
        record.status = CLIENT_GONE
        try:
            return await self._carried_out(call, record)
        except StatusError as error:
            record.status = error.code
            raise
        finally:
            # Also when the caller is cancelled: an audit event that has begun must be completed.
            recorder.end(record)

    def _carried_out(self, call: APICall, record: RequestRecord | None) -> Coroutine[Any, Any, Any]:
        carry_out = super().call
        if self._is_shared and call.verb not in _READS:
            return judged_again(self._server.registry, lambda: carry_out(call, record))
        return carry_out(call, record)


def _shown(answer: CallAnswer, record: RequestRecord | None) -> Any:
    """Return the object of an answer in the version of its call, and note it in the record."""
    entry, version = answer.entry, answer.call.version
    if entry is None:
        shown = answer.value
    else:
        shown = entry.object
        if type(shown) is not version.type:  # objects are stored in the version of nearly all calls
            shown = entry.view(version)
    if record is not None:
        record.status = answer.status
        record.response_body = encode(shown)
        record.created_name = getattr(getattr(shown, "metadata", None), "name", "")
    return shown


def _reviewed(ref: ResourceRef[KubeObject], subresource: str) -> tuple[AnyDefinition, VersionDefinition, Strategy[Any]]:
    """Return definition, version and strategy of a resource that is served without being stored, as reviews of access.

    Raises:
        StatusError: 404, there is nothing of that name.
    """
    review = None if subresource else REVIEWS.get(GroupResource(ref.group, ref.resource))
    if review is None:
        raise failure(404, "NotFound", "the server could not find the requested resource", None)
    return review.definition, review.definition.versions[0], review.definition.strategy
