"""From a message to a verb of the API in process, and from its outcome to a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject, Status
from cathedra.api.decoding import KINDS_WITH_SCHEMAS, DecodeError, decode_json
from cathedra.api.field import ErrorList
from cathedra.api.nesting import MAX_DEPTH, WRAPPED_DEPTH, check_nesting, load_json
from cathedra.api.parts import PartsDecoder, parts_decoder
from cathedra.api.scheme import GroupResource, GroupVersionKind, kind_of, type_of
from cathedra.api.status import StatusError, bad_request, failure, invalid, method_not_supported
from cathedra.api.struct import KubeStruct, encode, json_reader
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.options import check_applied, check_writing
from cathedra.apiserver.http.request import BODY_LIMIT
from cathedra.apiserver.requestinfo import STREAMED
from cathedra.apiserver.subresources.reviews import REVIEWS
from cathedra.apiserver.transport import InProcessTransport
from cathedra.client.local.messages import PATCH_TYPES, STATUS, LocalRequest, Options, Plain
from cathedra.client.transport import APICall, ListOptions, PatchType, ResourceRef, WriteOptions
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

__all__ = [
    "RequestedResource",
    "Routes",
    "call_of",
    "carry_out",
    "list_options",
    "not_served",
    "plain_answer",
    "refused",
]


_ON_OBJECTS: Final = frozenset({"list", "watch", "delete", "deletecollection"})
"""Verbs that no sub-resource knows."""
_NAMED: Final = frozenset({"get", "update", "patch", "delete"})
"""Verbs about one object."""
_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
"""Verbs that make a manager own fields, and their options."""
_SELECTING: Final = frozenset({"list", "watch", "deletecollection"})
"""Verbs on a collection, with selectors."""


class RequestedResource(msgspec.Struct, frozen=True):
    """What a message asks of, as verbs know it."""

    ref: ResourceRef[Any]
    definition: AnyDefinition
    version: VersionDefinition
    decoder: PartsDecoder[Any] | _SchemasDecoder
    """Of what is posted: to a sub-resource, another kind than that of the resource."""


class _SchemasDecoder:
    """Decodes kinds with schemas inside, which are opaque JSON to a struct: nulls and unknown fields are left out."""

    def __init__(self, gvk: GroupVersionKind) -> None:
        self._kind = type_of(gvk)
        self._gvk = gvk

    def new(self, body: bytes) -> Any:
        """Decode an object.

        Raises:
            DecodeError: a value has the wrong type or form.
        """
        return decode_json(self._kind, self._gvk, body).object

    def later(self, body: bytes, earlier: Any, earlier_body: bytes) -> Any:
        """Decode a later state of an object.

        Raises:
            DecodeError: a value has the wrong type or form.
        """
        return self.new(body)


class Routes:
    """The resources that messages name, looked up once for each verb, until others are served."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._generation = catalog.generation
        self._found: dict[tuple[str, ...], RequestedResource] = {}

    def find(self, request: LocalRequest) -> RequestedResource:
        """The resource that a message names.

        Sub-resources that are connections, or that have a kind of their own beside what is posted (``scale``), are
        served over HTTP alone.

        Raises:
            StatusError: 404, it is not served; 405, it knows no such verb.
        """
        if self._generation != self._catalog.generation:
            self._generation = self._catalog.generation
            self._found.clear()
        key = (request.verb, request.group, request.version, request.resource, request.subresource)
        found = self._found.get(key)
        if found is None:
            found = _find(self._catalog, request)
            if request.verb in _BODIES:  # so there are no more of them than the server has routes
                self._found[key] = found
        return found


def _find(catalog: Catalog, request: LocalRequest) -> RequestedResource:
    route = catalog.route(request.group, request.version, request.resource, request.subresource)
    if route is not None and route.definition and route.served:
        if (route.group, route.resource, route.subresource) in STREAMED or request.subresource == "scale":
            raise not_served()
        if request.verb not in route.verbs or (request.subresource and request.verb in _ON_OBJECTS):
            raise method_not_supported(GroupResource(request.group, request.resource), request.verb)
        return _found(route.definition, route.served, request)
    review = REVIEWS.get(GroupResource(request.group, request.resource))
    if review is not None and not request.subresource and (version := _served(review.definition, request.version)):
        if request.verb != "create":
            raise method_not_supported(GroupResource(request.group, request.resource), request.verb)
        return _found(review.definition, version, request)
    raise not_served()


def not_served() -> StatusError:
    """404: it is not served here, though perhaps over HTTP; nothing was done."""
    return failure(404, "NotFound", "the server could not find the requested resource", None)


def _served(definition: AnyDefinition, name: str) -> VersionDefinition | None:
    return next((version for version in definition.versions if version.name == name), None)


def _found(definition: AnyDefinition, version: VersionDefinition, request: LocalRequest) -> RequestedResource:
    ref: ResourceRef[Any] = ResourceRef(
        definition.group, version.name, definition.plural, definition.kind, definition.namespaced, version.type
    )
    posted = _posted(definition, version, request.subresource) if request.verb == "create" else version.type
    decoder: PartsDecoder[Any] | _SchemasDecoder = parts_decoder(posted)
    if definition.kind in KINDS_WITH_SCHEMAS and posted is version.type:
        decoder = _SchemasDecoder(GroupVersionKind(definition.group, version.name, definition.kind))
    return RequestedResource(ref, definition, version, decoder)


def carry_out(
    transport: InProcessTransport, found: RequestedResource, request: LocalRequest, manager: str = ""
) -> Awaitable[Any]:
    """Do what a message asks for: an object, a `Page`, or None. ``manager`` writes where the message names none.

    Raises:
        StatusError: it is refused, or makes no sense.
    """
    read = _BODIES.get(request.verb)
    if read is None:
        raise bad_request(f"the verb {request.verb!r} is unknown")
    if len(request.body) > BODY_LIMIT:
        raise failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
    _check_address(found.definition, request)
    if manager and not request.options.field_manager and request.verb in _KINDS and not _applies(request.options):
        request = msgspec.structs.replace(
            request, options=msgspec.structs.replace(request.options, field_manager=manager)
        )
    try:
        return transport.call(call_of(found, request, body=read(transport, found, request)))
    except StatusError:
        # Authorize first: only users who may send such a body are told what is wrong with it.
        transport.check(call_of(found, request, checked=False))
        raise


def call_of(found: RequestedResource, request: LocalRequest, *, body: Any = None, checked: bool = True) -> APICall:
    """Return the call that a message asks for; without its options if they are not to be ``checked``.

    Raises:
        StatusError: 400 or 422, the options are invalid.
    """
    verb: Any = request.verb
    call = APICall(verb, found.ref, request.namespace, request.name, request.subresource, body)
    if not checked:
        return call
    if verb in _KINDS:
        patch_type = PATCH_TYPES[request.options.patch_type] if verb == "patch" else None
        return msgspec.structs.replace(call, patch_type=patch_type, options=_write_options(request))
    if verb in _SELECTING:
        return msgspec.structs.replace(call, selection=list_options(request.options))
    return call


def _check_address(definition: AnyDefinition, request: LocalRequest) -> None:
    """Refuse what no URL can ask for, so that nothing is authorized under one name and done under another.

    Raises:
        StatusError: 404, there is no such place; 405, only the collection is created in.
    """
    name, namespace = request.name, request.namespace
    if "/" in name or "/" in namespace:
        raise not_served()
    if request.verb == "create":
        if name and not request.subresource:
            raise method_not_supported(GroupResource(request.group, request.resource), "create")
        if not request.subresource:
            return
    if definition.namespaced and not namespace and (request.subresource or request.verb in _NAMED):
        raise not_served()


def _nothing(transport: InProcessTransport, found: RequestedResource, request: LocalRequest) -> None:
    return None


def _created(transport: InProcessTransport, found: RequestedResource, request: LocalRequest) -> Any:
    return _read(found.decoder.new, request.body)


def _updated(transport: InProcessTransport, found: RequestedResource, request: LocalRequest) -> KubeObject:
    stored = transport.stored(found.definition, request.namespace, request.name)
    if stored is None:
        obj: KubeObject = _read(found.decoder.new, request.body)
    else:
        # Unchanged parts become the very parts of the stored object, as in a change that is made in this process.
        obj = _read(found.decoder.later, request.body, stored.view(found.version), stored.body(found.version))
    if obj.metadata.name != request.name:
        name = obj.metadata.name
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
    return obj


def _patched(transport: InProcessTransport, found: RequestedResource, request: LocalRequest) -> Any:
    if request.options.patch_type not in PATCH_TYPES:
        raise bad_request(f"the patch type {request.options.patch_type!r} is unknown")
    return _values(request.body)


def _deleted(transport: InProcessTransport, found: RequestedResource, request: LocalRequest) -> DeleteOptions:
    options: DeleteOptions = _decoded(DeleteOptions, request.body)
    return options


_BODIES: Final[dict[str, Callable[[InProcessTransport, RequestedResource, LocalRequest], Any]]] = {
    "get": _nothing,
    "list": _nothing,
    "create": _created,
    "update": _updated,
    "patch": _patched,
    "delete": _deleted,
    "deletecollection": _deleted,
}
"""The decoder of the body for each verb that is answered once."""


def list_options(options: Options) -> ListOptions:
    """Return what to list or watch, as verbs take it.

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


def plain_answer(number: int, answer: KubeStruct) -> Plain:
    """An answer that is no stored object."""
    kind = STATUS if isinstance(answer, Status) else kind_of(type(answer))
    return Plain(number, kind.api_version, kind.kind, encode(answer))


def refused(error: StatusError) -> bytes:
    """A refusal as it goes out."""
    status: Status = error.status
    return encode(status)


def _write_options(request: LocalRequest) -> WriteOptions:
    options, errors = request.options, ErrorList()
    applies = _applies(options)
    if applies:
        check_applied(errors, options.field_manager)
    check_writing(errors, options.field_manager, (), options.field_validation)
    if errors:
        raise invalid("meta.k8s.io", _KINDS[request.verb], "", errors)
    return WriteOptions(options.dry_run, options.field_manager, options.field_validation, options.force and applies)


def _applies(options: Options) -> bool:
    return options.patch_type == PatchType.APPLY.name


def _posted(definition: AnyDefinition, version: VersionDefinition, subresource: str) -> type[Any]:
    if not subresource:
        return version.type
    try:
        return type_of(definition.posted_kind(subresource, version.name))
    except KeyError:
        raise not_served() from None


def _decoded(kind: type[Any], body: bytes) -> Any:
    return _read(json_reader(kind), body)


def _read(read: Callable[..., Any], body: bytes, *others: Any) -> Any:
    try:
        check_nesting(body, WRAPPED_DEPTH)
        return read(body, *others)
    except (msgspec.DecodeError, UnicodeDecodeError, DecodeError) as error:
        raise bad_request(f"the body does not decode: {error}") from None


def _values(body: bytes) -> Any:
    try:
        return load_json(body, MAX_DEPTH)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the patch does not decode: {error}") from None
