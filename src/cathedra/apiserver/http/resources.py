"""Requests on resources: from path, method, query and body to a call, and from its answer to a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import Status, StatusDetails
from cathedra.api.field import ErrorList
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nulltimes import as_shown
from cathedra.api.protobuf import has_message
from cathedra.api.scheme import GroupResource, GroupVersionKind, kind_of
from cathedra.api.status import StatusError, failure, invalid, not_found
from cathedra.api.struct import to_dict
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.custom.objects import CustomObject, is_custom
from cathedra.apiserver.http.answers import render
from cathedra.apiserver.http.answers.broadcast import WatchBroadcaster
from cathedra.apiserver.http.answers.negotiation import (
    FOR_PLAIN_JSON,
    JSON_FORM,
    PROTOBUF_TYPE,
    AnswerForm,
    fit_for_list,
    fit_for_object,
    negotiate,
)
from cathedra.apiserver.http.answers.protobuf import not_marshalable
from cathedra.apiserver.http.answers.render import ListCache, stamp_of
from cathedra.apiserver.http.answers.response import Response, json_response, text_response
from cathedra.apiserver.http.answers.streaming import WatchOptions, WatchStream, send_error_stream
from cathedra.apiserver.http.answers.tables import TableOptions, check_include
from cathedra.apiserver.http.bodies import decode_delete_options, decode_object, patch_values
from cathedra.apiserver.http.measurements import Measurements
from cathedra.apiserver.http.proxying.proxy import Proxy
from cathedra.apiserver.http.request import Request, list_options, write_query
from cathedra.apiserver.pipeline.operations import (
    ResourceOperations,
    allows,
    checked_deletion,
    deletion_status,
    not_served,
    wrong_method,
)
from cathedra.apiserver.request import Call, CallAnswer, Listing
from cathedra.apiserver.routes import METRICS_GROUP, Route
from cathedra.apiserver.subresources.reviews import REVIEWS, Review
from cathedra.apiserver.subresources.scale import SCALE, scale_of, set_scale
from cathedra.apiserver.verbs import delete, patch, read, update
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.asgi.application import Send
from cathedra.client.transport import PatchType
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.releases import behaviours

__all__ = ["ResourceHandler", "not_served", "wrong_method"]

T = TypeVar("T")
_CELLS: Final = 2000
"""Objects of a list, or cells of a table, that are encoded on the event loop; they take about ten milliseconds."""

_STATUS: Final = GroupVersionKind("", "v1", "Status")
_PATCH_TYPES: Final[Mapping[str, PatchType]] = {kind.value: kind for kind in PatchType}
LONGEST_WATCH: Final = 365 * 24 * 3600
"""Limit of a watch in seconds: the event loop cannot set timers beyond it."""


class ResourceHandler:
    """Answers requests on resources, by the routes of the catalog."""

    def __init__(self, server: ServerContext, catalog: Catalog, proxy: Proxy) -> None:
        self._server = server
        self._catalog = catalog
        self._proxy = proxy
        self._operations = ResourceOperations(server, catalog)
        self._lists = ListCache()
        self._broadcaster = WatchBroadcaster(server.clock.monotonic)
        self._measurements = Measurements(server, proxy)
        self._drops = server.gates["ManagedFieldsOptOut"]
        self._answers_status = server.gates.has(behaviours.UNKNOWN_PATHS_ANSWER_STATUS)
        is_bad_request = server.gates.has(behaviours.BAD_REVISION_IS_BAD_REQUEST)
        self._check_revision = read.parse_revision if is_bad_request else read.watch_revision
        self._verbs: Mapping[str, Callable[[Request, Call], Awaitable[Response | None]]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: Request, send: Send) -> Response | None:
        """Return the answer to an authorized request, or None if it was sent as a stream.

        Raises:
            StatusError: the request was refused.
        """
        info = request.info
        route = self._operations.route(info)
        if route is None:
            if info.group and not self._catalog.has_group(info.group) and not self._answers_status:
                return text_response("404 page not found\n", 404)
            raise not_served()
        if route.definition is None:
            return await self._virtual(request, route)
        is_custom = not self._answers_status and issubclass(route.definition.type, CustomObject)
        if is_custom and not info.addresses(namespaced=route.namespaced):
            # Paths of custom resources are no routes of apiextensions-apiserver: it passes on what it does not know.
            return text_response("404 page not found\n", 404)
        call = self._operations.begin(request.record, route)
        if info.connecting:
            return await self._proxy.http(request, call, send)
        if info.method == "HEAD":
            raise wrong_method()  # Kubernetes' routes of resources have GET alone
        return await self._dispatch(request, call, send)

    async def websocket(self, request: Request, send: Send) -> Response | None:
        """Pass a WebSocket on to the node. Return an answer if it is refused.

        Raises:
            StatusError: it was refused before the upgrade.
        """
        info = request.info
        route = self._operations.route(info)
        if route is None or route.definition is None or route.served is None or not info.connecting:
            return text_response("404 page not found\n", 404)
        if not info.addresses(namespaced=route.namespaced):
            raise not_served()
        call = self._call(request, route.definition, route.served)
        await self._proxy.websocket(request, call, send)
        return None

    def _call(self, request: Request, definition: AnyDefinition, version: VersionDefinition) -> Call:
        """Return a request on a resource without stored objects, or on the object of another one."""
        return self._operations.call(request.record, definition, version, request.info.subresource)

    async def _virtual(self, request: Request, route: Route) -> Response:
        """Answer a request on a resource without stored objects."""
        info = request.info
        if route.group == METRICS_GROUP:
            return await self._measured(request, route)
        if info.rest or info.below_namespace != bool(info.namespace) or (info.namespace and not route.namespaced):
            raise not_served()
        if route.resource == "componentstatuses":
            return _no_component_statuses(request)
        if info.name or (route.namespaced and not info.namespace):
            # Only the collection has a path: nothing is there by name, or across namespaces.
            raise not_served()
        if info.method != "POST":
            raise wrong_method()
        if route.resource == "bindings":
            return await self._bind(request)
        review = REVIEWS[GroupResource(route.group, route.resource)]
        return await self._review(request, review, review.definition.version(route.version))

    async def _measured(self, request: Request, route: Route) -> Response:
        """Answer a request for the measured usage of nodes or pods."""
        info = request.info
        found = self._catalog.find("", "v1", route.resource)
        if found is None or not info.addresses(namespaced=route.namespaced):
            raise not_served()
        if not allows(route, info):
            raise wrong_method()
        form = negotiate(request.header(b"accept"), listing=not info.name, protobuf=False)
        call = self._call(request, *found)
        options = list_options(request)
        shown = await self._measurements.answer(call, options.label_selector, options.field_selector)
        return render.render_plain(shown, msgspec.structs.replace(form, transform=""))

    async def _bind(self, request: Request) -> Response:
        """Create a binding that was posted to the collection, as if it had been posted to the pod that it names."""
        found = self._catalog.find("", "v1", "pods")
        if found is None:
            raise not_served()
        query = write_query(request, "CreateOptions")
        call = self._call(request, *found).but(
            dry_run=query.dry_run,
            field_manager=query.field_manager,
            field_validation=query.field_validation,
            subresource="binding",
        )
        form = self._form(request, call)
        binding = await decode_object(request, call, _posted(call))
        shown = _whole((await self._operations.create(call.but(name=binding.metadata.name), binding)).value)
        return render.render_plain(
            shown, msgspec.structs.replace(form, transform=""), status=201, warnings=call.warnings
        )

    async def _review(self, request: Request, review: Review, version: VersionDefinition) -> Response:
        definition = review.definition
        query = write_query(request, "CreateOptions")
        call = self._call(request, definition, version).but(field_validation=query.field_validation)
        form = self._form(request, call)
        answer = (await self._operations.create(call, await decode_object(request, call))).value
        answer = as_shown(answer, self._server.gates)
        shown = {"kind": definition.kind, "apiVersion": call.api_version} | _plain(answer)
        return render.render_plain(
            shown, msgspec.structs.replace(form, transform=""), status=201, warnings=call.warnings
        )

    def _dispatch(self, request: Request, call: Call, send: Send) -> Awaitable[Response | None]:
        verb = call.verb
        if verb == "watch":
            return self._watch(request, call, send)
        if call.subresource == "scale":
            return self._scale(request, call)
        return self._verbs[verb](request, call)

    async def _get(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        # A GET ignores the version, and still refuses one that is no number.
        self._check_revision(request.parameter("resourceVersion"))
        return self._object(request, call, await self._operations.get(call), form)

    async def _list(self, request: Request, call: Call) -> Response:
        form = fit_for_list(self._form(request, call), _go_type(call))
        options = list_options(request)
        if "sendInitialEvents" in request.query:
            errors = read.list_option_errors(options)
            errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
            raise invalid("meta.k8s.io", "ListOptions", "", errors)
        plain = form == JSON_FORM and not (
            options.resource_version or options.resource_version_match or options.continue_
        )
        table = self._server.table(call)
        if plain and (items := self._lists.get(table, call, options)) is not None:
            return render.render_list(call, Listing([], self._server.registry.revision), form, items=items)
        # Taken before the list is read. A write meanwhile changes the stamp, so an outdated list is never served again.
        stamp = stamp_of(table)
        listing = _listed(await self._operations.list(call, options))
        # A page is not cached: its continue token holds the revision of this very list.
        if plain and not listing.continue_:
            items = await self._beside_loop(call, listing, lambda check: render.items_of(call, listing, check))
            self._lists.keep(table, call, options, items, stamp)
            return render.render_list(call, listing, form, items=items)
        table_of = self._table(request)
        return await self._beside_loop(
            call,
            listing,
            lambda check: render.render_list(call, listing, form, table=table_of, check=check),
            cells=len(call.definition.columns) if form.transform == "Table" else 1,
        )

    async def _beside_loop(
        self, call: Call, listing: Listing, work: Callable[[Callable[[], object]], T], cells: int = 1
    ) -> T:
        """Return the result of ``work`` on a list. Long lists and wide tables are encoded in the thread."""
        if len(listing.entries) * cells <= _CELLS:
            return work(bool)
        return await self._server.computations.compute(lambda interruption: work(interruption.check), call.user.name)

    async def _watch(self, request: Request, call: Call, send: Send) -> None:
        form = negotiate(
            request.header(b"accept"), streaming=True, protobuf=has_message(call.version.type), drops=self._drops
        )
        if form.media_type == PROTOBUF_TYPE and form.transform == "Table":
            raise not_marshalable(f"{form.version}.Table")
        options = list_options(request)
        bookmarks = request.flag("allowWatchBookmarks")
        send_initial = _send_initial(request, options.resource_version_match)
        seconds = request.number("timeoutSeconds")
        # Random, so that the watches of clients that connected together, as after a restart, do not all end together.
        timeout = self._server.random.uniform(1800, 3600) if seconds is None else float(min(seconds, LONGEST_WATCH))
        # Checked before the watch begins: an error must be the answer and not an event.
        include = check_include(request.parameter("includeObject")) if form.transform == "Table" else ""
        try:
            start = self._operations.watch(call, options, send_initial=send_initial)
        except StatusError as error:
            if not error.is_expired:
                raise
            # kube-apiserver begins the stream with 200 and sends "Expired" as its only event. client-go's reflector
            # lists again on that.
            await send_error_stream(send, error, form, request.audit_id)
            return
        watched = WatchOptions(timeout, bookmarks, bookmarks and bool(send_initial), include)
        # The seat of priority and fairness is released when the initial events are sent: a watch lasts for an hour and
        # would otherwise occupy it.
        stream = WatchStream(self._server, call, start, form, watched, request.record.seat.release)
        direct = request.direct
        push = (direct, self._broadcaster) if direct is not None else None
        await stream.run(send, request.receive, request.audit_id, push)

    async def _create(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        call = _writing(request, call, "CreateOptions")
        posted = _posted(call) if call.subresource else None
        computations = None if call.subresource else self._server.computations
        answer = await self._operations.create(
            call, await decode_object(request, call, posted, computations=computations)
        )
        if answer.entry is None:
            return render.render_plain(_whole(answer.value), msgspec.structs.replace(form, transform=""), status=201)
        # For the audit record: with generateName the path has no name.
        request.record.created_name = answer.entry.object.metadata.name
        return self._object(request, call, answer, form)

    async def _update(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        call = _writing(request, call, "UpdateOptions")
        # Parts of the body with the stored bytes become the stored objects, so that memos which go by identity hold for
        # them.
        stored = self._server.find(call)
        decoded = await decode_object(request, call, stored=stored, computations=self._server.computations)
        return self._object(request, call, await update.update(self._server, call, decoded), form)

    async def _patch(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        patch_type = _patch_type(request)
        call = _writing(request, call, "PatchOptions", apply=patch_type is PatchType.APPLY)
        # Parsed before the object is read, so a malformed patch is refused with 400 even if the object does not exist.
        body, repeated = await patch_values(await request.body(), call, patch_type, self._server.computations)
        return self._object(request, call, await patch.patch(self._server, call, patch_type, body, repeated), form)

    async def _scale(self, request: Request, call: Call) -> Response:
        form = msgspec.structs.replace(self._form(request, call), transform="")
        if call.verb == "get":
            scale = scale_of((await self._operations.get(call)).stored.object)
        elif call.verb == "update":
            query = write_query(request, "UpdateOptions")
            call = call.but(dry_run=query.dry_run, field_manager=query.field_manager)
            wanted = await decode_object(request, call, SCALE)
            scale = await set_scale(self._server, call, lambda _: wanted)
        else:
            patch_type = _patch_type(request)
            query = write_query(request, "PatchOptions", apply=patch_type is PatchType.APPLY)
            call = call.but(dry_run=query.dry_run, field_manager=query.field_manager, force=query.force)
            body, _ = await patch_values(await request.body(), call, patch_type, self._server.computations)
            scale = await set_scale(
                self._server,
                call,
                lambda now: patch.patched_part(call, SCALE, now, patch_type, body),
                applies=patch_type is PatchType.APPLY,
            )
        return render.render_plain({"kind": "Scale", "apiVersion": "autoscaling/v1"} | _plain(scale), form)

    async def _delete(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        answer = await delete.delete(self._server, call, checked_deletion(await decode_delete_options(request)))
        if answer.gone and not call.definition.strategy.returns_deleted_object:
            status = deletion_status(call, answer.stored)
            return render.render_plain(status, msgspec.structs.replace(form, transform=""), warnings=call.warnings)
        return self._object(request, call, answer, form)

    async def _delete_collection(self, request: Request, call: Call) -> Response:
        form = fit_for_list(self._form(request, call), _go_type(call))
        options = checked_deletion(await decode_delete_options(request))
        answer = await self._operations.delete_collection(call, list_options(request), options)
        return render.render_list(call, _listed(answer), form, table=self._table(request))

    def _object(self, request: Request, call: Call, answer: CallAnswer, form: AnswerForm) -> Response:
        entry = answer.stored
        if not form.transform:
            return render.render_object(call, entry, form, status=answer.status)
        form = fit_for_object(form, _go_type(call))
        return render.render_object(call, entry, form, status=answer.status, table=self._table(request))

    def _table(self, request: Request) -> TableOptions:
        return TableOptions(request.parameter("includeObject"), self._server.clock.now())

    def _form(self, request: Request, call: Call) -> AnswerForm:
        accept = request.header(b"accept")
        # Nearly all requests accept plain JSON. Negotiation parses the header, which takes longer than a memory lookup.
        if accept in FOR_PLAIN_JSON:
            return JSON_FORM
        return negotiate(
            accept,
            listing=call.verb in {"list", "watch"},
            protobuf=has_message(call.version.type),
            drops=self._drops,
        )


def _go_type(call: Call) -> str:
    """Return the Go type of the object, for messages."""
    if is_custom(call.version.type):
        return "unstructured.Unstructured"
    return f"{call.definition.group.partition('.')[0] or 'core'}.{call.definition.kind}"


def _no_component_statuses(request: Request) -> Response:
    """Return an empty list: all components are parts of the process that answers."""
    info = request.info
    if info.method != "GET":
        raise wrong_method()
    if info.name:
        raise not_found(GroupResource("", "componentstatuses"), info.name)
    warning = render.warning_headers(["v1 ComponentStatus is deprecated in v1.19+"])
    listed = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}
    return json_response(listed, 200, warning)


def _writing(request: Request, call: Call, kind: str, *, apply: bool = False) -> Call:
    """Return the call with the options of its write (`write_query`).

    Raises:
        StatusError: 422, some make no sense.
    """
    query = write_query(request, kind, apply=apply)
    if not request.query:  # the rest is as it was
        return call.but(
            field_manager=query.field_manager, field_validation=query.field_validation, size=request.announced_size
        )
    return call.but(
        size=request.announced_size,
        dry_run=query.dry_run,
        field_manager=query.field_manager,
        field_validation=query.field_validation,
        force=query.force,
    )


def _listed(answer: CallAnswer) -> Listing:
    assert answer.listing is not None, "the verb answers with objects"
    return answer.listing


def _posted(call: Call) -> GroupVersionKind:
    """Return the kind that is posted to the sub-resource of a call."""
    return call.definition.posted_kind(call.subresource, call.version.name)


def _whole(value: Any) -> JSONObject:
    """Return an object that is not stored as JSON, with its kind."""
    kind = _STATUS if isinstance(value, Status) else kind_of(value.__class__)
    return {"kind": kind.kind, "apiVersion": kind.api_version} | _plain(value)


def _plain(value: Any) -> JSONObject:
    plain: JSONObject = to_dict(value)
    return plain


def _patch_type(request: Request) -> PatchType:
    known = _PATCH_TYPES.get(request.header(b"content-type").partition(";")[0].strip())
    if known is None:
        raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", StatusDetails())
    return known


def _send_initial(request: Request, match: str) -> bool | None:
    """Return True if the watch begins with the existing objects; None if that depends on the resource version."""
    errors = ErrorList()
    given = request.query.get("sendInitialEvents")
    if given is None:
        if match:
            errors.forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
            raise invalid("meta.k8s.io", "ListOptions", "", errors)
        return None
    if match != "NotOlderThan":
        errors.forbidden(
            "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
        if match:
            errors.not_supported("resourceVersionMatch", match, ["NotOlderThan"])
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    return request.flag("sendInitialEvents")
