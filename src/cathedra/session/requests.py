"""Messages of the binary protocol, as the pipeline takes them: a record, then a call and its object.

A message stands for the HTTP request that it abbreviates. Its `RequestInfo` is that of this request's path, so a
message is authorized, placed, counted and logged as that request is, and one that no path can express is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions
from cathedra.api.decoding import KINDS_WITH_SCHEMAS, DecodeError
from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting
from cathedra.api.parts import parts_decoder
from cathedra.api.releasefields import of_release
from cathedra.api.scheme import GroupResource, GroupVersionKind, type_of
from cathedra.api.status import bad_request, failure
from cathedra.api.struct import encode, json_reader
from cathedra.apiserver.authentication.authenticator import KnownTokens
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.custom.objects import is_custom
from cathedra.apiserver.http.bodies import decode_plain, json_delete_options, patch_values
from cathedra.apiserver.http.request import BODY_LIMIT
from cathedra.apiserver.pipeline.operations import (
    ResourceOperations,
    WriteQuery,
    checked_deletion,
    checked_write,
)
from cathedra.apiserver.pipeline.pipeline import Pipeline, Recorder
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.request import Call, CallAnswer
from cathedra.apiserver.requestinfo import RequestInfo, request_info
from cathedra.apiserver.routes import Route
from cathedra.apiserver.subresources.reviews import REVIEWS
from cathedra.apiserver.verbs import delete, patch, update
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.transport import ListOptions, PatchType
from cathedra.session.protocol import PATCH_TYPES, RequestMessage, RequestOptions, ServedOverHTTP

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
"""Verbs that make a manager own fields, and their options."""
_WHOLE_BODIES: Final = frozenset({"create", "update"})
_SELECTED: Final = frozenset({"list", "watch", "deletecollection"})
_DELETIONS: Final = frozenset({"delete", "deletecollection"})
MOST_USERS: Final = 65_536
"""Limit of the users of a connection."""
_DRY_RUN: Final = b"dryRun=All"
_DELETE_OPTIONS: Final = GroupVersionKind("", "v1", "DeleteOptions")


def request_path(request: RequestMessage) -> str:
    """Return the path that the request would have over HTTP, decoded."""
    path = f"/apis/{request.group}/{request.version}" if request.group else f"/api/{request.version}"
    if request.namespace:
        path = f"{path}/namespaces/{request.namespace}"
    path = f"{path}/{request.resource}"
    if request.name:
        path = f"{path}/{request.name}"
    return f"{path}/{request.subresource}" if request.subresource else path


def request_info_of(request: RequestMessage) -> RequestInfo:
    """Return the operation of a request, parsed from its path as over HTTP."""
    return request_info(_METHODS.get(request.verb, ""), request_path(request), watch=request.verb == "watch")


def record_of(recorder: Recorder, request: RequestMessage, user: UserInfo, *, agent: str = "") -> RequestRecord:
    """Return the record of a request that has arrived."""
    options = request.options
    record = recorder.record(request_info_of(request), _DRY_RUN if options.dry_run else b"")
    record.user = record.acting = user
    if request.verb == "patch":
        record.content_type = _content_type(options)
    elif request.verb in _SELECTED:
        record.field_selector = options.field_selector
        record.label_selector = options.label_selector
        record.resource_version = options.resource_version
    if recorder.audits:
        record.query = _query(request.verb, options)
        record.user_agent = agent
    return record


def _content_type(options: RequestOptions) -> str:
    """Return the media type that the body of a patch would have over HTTP."""
    patch_type = PATCH_TYPES.get(options.patch_type)
    return "" if patch_type is None else patch_type.value


def _query(verb: str, options: RequestOptions) -> bytes:
    """Return the query that the request would have over HTTP."""
    values = {
        "labelSelector": options.label_selector,
        "fieldSelector": options.field_selector,
        "limit": str(options.limit or ""),
        "continue": options.continue_,
        "resourceVersion": options.resource_version,
        "resourceVersionMatch": options.resource_version_match,
        "dryRun": "All" if options.dry_run else "",
        "fieldManager": options.field_manager,
        "fieldValidation": options.field_validation,
        "force": "true" if options.force else "",
        "watch": "true" if verb == "watch" else "",
    }
    return urlencode({name: value for name, value in values.items() if value}).encode()


def with_kind(kind: GroupVersionKind, body: bytes) -> bytes:
    """Return the JSON of an object with its kind and apiVersion, as HTTP has it; other bodies as they are."""
    if not body.startswith(b"{"):
        return body
    more = b"" if body[1:].lstrip().startswith(b"}") else b","
    return b'{"kind":%b,"apiVersion":%b%b%b' % (encode(kind.kind), encode(kind.api_version), more, body[1:])


class CountsWatches(Protocol):
    """A session, as far as the limit of its user's watches goes."""

    @property
    def watches(self) -> int:
        """The number of watches that are under way."""


class SessionContext(msgspec.Struct, frozen=True):
    """The parts of the server that a session uses, and its limits."""

    requests: Requests
    tokens: KnownTokens
    most_users: int = MOST_USERS
    limited: bool = False
    """True over the network: requests take seats and have deadlines, and writes a field manager."""
    source: str = ""
    """The address of the client, for audit."""
    siblings: Collection[CountsWatches] = ()
    """All sessions of the same user, this one among them; empty if there is no limit for all of them together."""


class Requests:
    """Requests of sessions, carried out as those over HTTP."""

    def __init__(
        self,
        context: ServerContext,
        pipeline: Pipeline,
        operations: ResourceOperations,
        aggregated: Callable[[], Collection[tuple[str, str]]],
    ) -> None:
        """``aggregated`` returns the groups and versions that other servers answer for."""
        self.context = context
        self.pipeline = pipeline
        self.operations = operations
        self._aggregated = aggregated

    def find(self, request: RequestMessage, info: RequestInfo, *, limited: bool) -> Route:
        """Return the resource that a message names.

        Left to HTTP are connections, sub-resources that have a kind of their own beside what is posted (``scale``), and
        in a ``limited`` session the groups of other servers and the bodies of custom objects, which are pruned by their
        schemas as they are read.

        Raises:
            ServedOverHTTP: sessions do not serve it.
            StatusError: 400, there is no such verb.
        """
        if request.verb not in _METHODS:
            raise bad_request(f"the verb {request.verb!r} is unknown")
        if not _is_addressed(request, info):
            raise ServedOverHTTP
        if limited and info.group and (info.group, info.version) in self._aggregated():
            raise ServedOverHTTP
        route = self.operations.route(info)
        if route is None:
            raise ServedOverHTTP
        if route.definition is None or route.served is None:
            return _review(route)
        if info.subresource and (info.connecting or info.subresource == "scale"):
            raise ServedOverHTTP
        if limited and request.verb in _WHOLE_BODIES and is_custom(route.served.type):
            raise ServedOverHTTP
        return route

    def carry_out(
        self, request: RequestMessage, route: Route, record: RequestRecord, manager: str
    ) -> Awaitable[CallAnswer]:
        """Carry out an authorized request. ``manager`` writes where the message names none.

        Raises:
            StatusError: it is refused.
        """
        # Not a coroutine: every frame on the way of a request costs time.
        call = self.operations.begin(record, route)
        if len(request.body) > BODY_LIMIT:
            raise failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
        if request.verb in _KINDS:
            call = _writing(request, call, manager)
        if self.pipeline.audits:
            # Not earlier: as over HTTP, the body of a request that was denied has not been read.
            record.request_body = _logged_body(request, call)
        return _VERBS[request.verb](self, request, call)

    def _get(self, request: RequestMessage, call: Call) -> Awaitable[CallAnswer]:
        return self.operations.get(call)

    def _list(self, request: RequestMessage, call: Call) -> Awaitable[CallAnswer]:
        return self.operations.list(call, list_options(request.options))

    def _create(self, request: RequestMessage, call: Call) -> Awaitable[CallAnswer]:
        kind, target = _posted(call)
        obj = _decoded(call, kind, target, request.body, lambda: parts_decoder(target).new(request.body))
        return self.operations.create(call, obj)

    def _update(self, request: RequestMessage, call: Call) -> Awaitable[CallAnswer]:
        target, body, stored = call.version.type, request.body, self.context.find(call)
        decoder = parts_decoder(target)
        if stored is None:
            obj = _decoded(call, call.gvk, target, body, lambda: decoder.new(body))
        else:
            # Fields that did not change become the stored object's own parts, as in a change that is made in this
            # process: memos that go by identity then hold for them.
            earlier, earlier_body = stored.view(call.version), stored.body(call.version)
            obj = _decoded(call, call.gvk, target, body, lambda: decoder.later(body, earlier, earlier_body))
        return update.update(self.context, call, obj)

    async def _patch(self, request: RequestMessage, call: Call) -> CallAnswer:
        patch_type = PATCH_TYPES.get(request.options.patch_type)
        if patch_type is None:
            raise bad_request(f"the patch type {request.options.patch_type!r} is unknown")
        body, repeated = await patch_values(request.body, call, patch_type, self.context.computations)
        return await patch.patch(self.context, call, patch_type, body, repeated)

    def _delete(self, request: RequestMessage, call: Call) -> Awaitable[CallAnswer]:
        return delete.delete(self.context, call, _delete_options(request.body))

    def _delete_collection(self, request: RequestMessage, call: Call) -> Awaitable[CallAnswer]:
        listed = list_options(request.options)
        return self.operations.delete_collection(call, listed, _delete_options(request.body))


_VERBS: Final[dict[str, Callable[[Requests, RequestMessage, Call], Awaitable[CallAnswer]]]] = {
    "get": Requests._get,
    "list": Requests._list,
    "create": Requests._create,
    "update": Requests._update,
    "patch": Requests._patch,
    "delete": Requests._delete,
    "deletecollection": Requests._delete_collection,
}


def _is_addressed(request: RequestMessage, info: RequestInfo) -> bool:
    """Return True if the path of a message means what the message names.

    Names with slashes would make it mean something else: then the message is one that no path can express. Nothing is
    authorized under one name and done under another in any case, because both go by ``info``.
    """
    return (
        info.verb == request.verb
        and info.resource == request.resource
        and info.name == request.name
        and info.subresource == request.subresource
        and not info.rest
    )


def _review(route: Route) -> Route:
    """Return the route of a review with the definition by which it is read and answered.

    Raises:
        ServedOverHTTP: it is another resource without stored objects.
    """
    review = REVIEWS.get(GroupResource(route.group, route.resource))
    if review is None:
        raise ServedOverHTTP
    served = review.definition.version(route.version)
    return msgspec.structs.replace(route, definition=review.definition, served=served)


def _posted(call: Call) -> tuple[GroupVersionKind, type[Any]]:
    """Return kind and type of what is posted: to a sub-resource, another kind than that of the resource."""
    if not call.subresource:
        return call.gvk, call.version.type
    kind = call.definition.posted_kind(call.subresource, call.version.name)
    try:
        return kind, type_of(kind)
    except KeyError:
        raise ServedOverHTTP from None


def list_options(options: RequestOptions) -> ListOptions:
    """Return the objects to list or watch, as verbs take it.

    Raises:
        StatusError: 400, the limit is no 64-bit integer, which HTTP's queries cannot hold either.
    """
    if options.limit >= 2**63:
        raise bad_request(f"the limit {options.limit} is out of range")
    return ListOptions(
        options.label_selector,
        options.field_selector,
        options.limit,
        options.continue_,
        options.resource_version,
        options.resource_version_match,
    )


def _writing(request: RequestMessage, call: Call, manager: str) -> Call:
    """Return the call with the options of its write.

    Raises:
        StatusError: 422, some are invalid.
    """
    options = request.options
    applies = options.patch_type == PatchType.APPLY.name
    query = WriteQuery(
        options.dry_run, options.field_manager, options.field_validation, options.force and applies, applies
    )
    checked_write(_KINDS[request.verb], query)
    # Warnings cannot be sent over a session, so what would only cause them is not looked for.
    validation = "Strict" if query.field_validation == "Strict" else "Ignore"
    return call.but(
        size=len(request.body),
        dry_run=query.dry_run,
        field_manager=query.field_manager or manager,
        field_validation=validation,
        force=query.force,
    )


def _decoded(call: Call, kind: GroupVersionKind, target: type[Any], body: bytes, decode: Callable[[], Any]) -> Any:
    """Return the object of a body: by ``decode``, the fast path, or else as over HTTP, with the same errors.

    Raises:
        StatusError: 400, it cannot be decoded.
    """
    if call.field_validation != "Strict" and kind.kind not in KINDS_WITH_SCHEMAS:
        try:
            check_nesting(body, WRAPPED_DEPTH)
            return of_release(decode(), call.release)
        except (msgspec.DecodeError, UnicodeDecodeError, DecodeError):
            pass
    return decode_plain(call, kind, target, body)


def _logged_body(request: RequestMessage, call: Call) -> bytes:
    """Return the body that the request would have over HTTP, where objects carry their kind."""
    if request.verb in _WHOLE_BODIES:
        return with_kind(_posted(call)[0] if request.verb == "create" else call.gvk, request.body)
    return with_kind(_DELETE_OPTIONS, request.body) if request.verb in _DELETIONS else request.body


def _delete_options(body: bytes) -> DeleteOptions:
    """Return the options of a deletion.

    Raises:
        StatusError: 400 or 422, they cannot be decoded, or some are invalid.
    """
    try:
        check_nesting(body, WRAPPED_DEPTH)
        options: DeleteOptions = json_reader(DeleteOptions)(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            options = json_delete_options(body)
        except DecodeError as error:
            raise bad_request(str(error)) from None
    return checked_deletion(options)
