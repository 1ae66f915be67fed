"""Requests on resources: from path, method and query to a verb, and from its outcome to an answer."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from cathedra.api.core.meta_v1 import DeleteOptions, StatusDetails
from cathedra.api.field import ErrorList
from cathedra.api.protobuf import has_message
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.api.status import StatusError, bad_request, failure, invalid, not_found
from cathedra.apiserver.authorization.authorizer import REASON, Attributes, refusal
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http import render
from cathedra.apiserver.http.bodies import decode_delete_options, decode_object, integer, load_values
from cathedra.apiserver.http.listcache import ListCache
from cathedra.apiserver.http.negotiation import JSON_FORM, PROTOBUF_TYPE, Form, fit_for_object, negotiate
from cathedra.apiserver.http.options import check_dry_run, list_options, write_query
from cathedra.apiserver.http.protobuf import not_marshalable
from cathedra.apiserver.http.request import Request, Send
from cathedra.apiserver.http.response import Response, json_response, status_response, text_response
from cathedra.apiserver.http.streaming import WatchStream, send_error_stream
from cathedra.apiserver.http.tables import check_include
from cathedra.apiserver.patches.duplicates import repeated_fields, repeated_yaml_keys
from cathedra.apiserver.registry.entry import Entry
from cathedra.apiserver.registry.selection import Selection, single_name
from cathedra.apiserver.request import Call
from cathedra.apiserver.requestinfo import Target
from cathedra.apiserver.subresources.dispatch import connect_create
from cathedra.apiserver.subresources.finalize import LIMITED_VERBS
from cathedra.apiserver.subresources.reviews import REVIEWS, Review
from cathedra.apiserver.subresources.scale import SCALE, has_scale, scale_of, set_scale
from cathedra.apiserver.verbs import create, delete, patch, read, update
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.transport import PatchType

__all__ = ["ResourceHandler", "not_served", "wrong_method"]

_BINDING: Final = GroupVersionKind("", "v1", "Binding")
_STATUS: Final = GroupVersionKind("", "v1", "Status")
_TOKEN: Final = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
_POSTED: Final = {"binding": _BINDING, "eviction": GroupVersionKind("policy", "v1", "Eviction"), "token": _TOKEN}
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def not_served() -> StatusError:
    """404: there is no such resource."""
    return failure(404, "NotFound", "the server could not find the requested resource", StatusDetails())


def wrong_method() -> StatusError:
    """405: the resource knows no such method."""
    return failure(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        StatusDetails(),
    )


class ResourceHandler:
    """Answers requests on resources."""

    def __init__(self, server: ServerContext, catalog: Catalog) -> None:
        self._server = server
        self._catalog = catalog
        self._lists = ListCache()

    async def handle(self, request: Request, target: Target, send: Send, audit_id: bytes) -> Response | None:
        """The answer, or None if it went out as a stream already.

        Raises:
            StatusError: the request was refused.
        """
        verb = self._verb(request, target)
        self._authorize(request, target, verb)
        review = REVIEWS.get(GroupResource(target.group, target.resource))
        if review is not None and target.version == review.definition.versions[0].name:
            return await self._review(request, target, review)
        if (target.group, target.version, target.resource) == ("", "v1", "bindings"):
            return await self._bind(request, target)
        if (target.group, target.version, target.resource) == ("", "v1", "componentstatuses"):
            return _no_component_statuses(request, target)
        found = self._catalog.find(target.group, target.version, target.resource)
        if found is None:
            if target.group and not self._catalog.has_group(target.group):
                return text_response("404 page not found\n", 404)
            raise not_served()
        definition, version = found
        if not verb:
            raise wrong_method()
        if not _addressable(target, namespaced=definition.namespaced):
            raise not_served()
        call = Call(
            user=request.user,
            verb=verb,
            definition=definition,
            version=version,
            namespace=target.namespace if definition.namespaced else "",
            name=target.name,
            subresource=target.subresource,
            release=self._server.gates.release,
            annotations=request.annotations,
        )
        if version.deprecation_warning and self._method_exists(call):
            call.warnings.append(version.deprecation_warning)
        try:
            if _needs_latest(request, verb, self._server.registry.revision):
                await self._server.registry.catch_up()
            return await self._dispatch(request, call, send, audit_id)
        except StatusError as error:
            return status_response(error, render.warning_headers(call.warnings))

    async def _bind(self, request: Request, target: Target) -> Response:
        """A binding posted to the collection: as if posted to the pod that it names."""
        found = self._catalog.find("", "v1", "pods")
        if request.method != "POST" or target.name or not target.namespace or found is None:
            raise wrong_method()
        definition, version = found
        query = write_query(request, "CreateOptions")
        call = Call(
            user=request.user,
            verb="create",
            definition=definition,
            version=version,
            namespace=target.namespace,
            subresource="binding",
            dry_run=query.dry_run,
            field_manager=query.field_manager,
            field_validation=query.field_validation,
            release=self._server.gates.release,
            annotations=request.annotations,
        )
        form = self._form(request, call)
        binding = await decode_object(request, call, _BINDING)
        call = call.but(name=binding.metadata.name)
        status = _plain(await connect_create(self._server, call, binding))
        shown = {"kind": _STATUS.kind, "apiVersion": _STATUS.api_version} | status
        return render.render_plain(shown, dataclasses.replace(form, transform=""), status=201, warnings=call.warnings)

    async def _review(self, request: Request, target: Target, review: Review) -> Response:
        if request.method != "POST" or target.name:
            raise wrong_method()
        definition = review.definition
        query = write_query(request, "CreateOptions")
        call = Call(
            user=request.user,
            verb="create",
            definition=definition,
            version=definition.versions[0],
            namespace=target.namespace,
            field_validation=query.field_validation,
            release=self._server.gates.release,
            annotations=request.annotations,
        )
        form = self._form(request, call)
        answer = review.answer(self._server, call, await decode_object(request, call))
        shown = {"kind": definition.kind, "apiVersion": call.api_version} | _plain(answer)
        return render.render_plain(shown, dataclasses.replace(form, transform=""), status=201, warnings=call.warnings)

    async def _dispatch(self, request: Request, call: Call, send: Send, audit_id: bytes) -> Response | None:
        if call.subresource and call.subresource not in _POSTED and not self._has_subresource(call):
            raise not_served()
        verb = call.verb
        if not self._method_exists(call):
            raise wrong_method()
        if verb == "watch":
            await self._watch(request, call, send, audit_id)
            return None
        if call.subresource == "scale":
            return await self._scale(request, call)
        if verb == "get":
            return self._get(request, call)
        if verb == "list":
            return self._list(request, call)
        if verb == "create":
            return await self._create(request, call)
        if verb == "update":
            return await self._update(request, call)
        if verb == "patch":
            return await self._patch(request, call)
        if verb == "delete":
            return await self._delete(request, call)
        return await self._delete_collection(request, call)

    @staticmethod
    def _method_exists(call: Call) -> bool:
        if call.verb == "create" and call.definition.namespaced and not call.namespace:
            return False
        if call.subresource in _POSTED:
            return call.verb == "create"
        if call.subresource:
            return call.verb in LIMITED_VERBS.get(call.subresource, ("get", "update", "patch"))
        if call.verb == "deletecollection" and call.resource == GroupResource("", "namespaces"):
            return False
        return call.verb in call.definition.verbs

    def _has_subresource(self, call: Call) -> bool:
        if call.subresource == "scale":
            return has_scale(call)
        allowed = call.version.subresources
        if allowed is not None and call.subresource not in allowed:
            return False
        return call.subresource in call.definition.subresources

    @staticmethod
    def _verb(request: Request, target: Target) -> str:
        method = request.method
        if method in {"GET", "HEAD"}:
            if target.name and not target.watch:
                return "get"
            return "watch" if target.watch or request.flag("watch") else "list"
        if method == "DELETE" and not target.name:
            return "deletecollection"
        return _VERBS.get(method, "")

    def _authorize(self, request: Request, target: Target, verb: str) -> None:
        name, field_selector, label_selector = target.name, "", ""
        if verb in {"list", "watch", "deletecollection"}:
            field_selector, label_selector = request.parameter("fieldSelector"), request.parameter("labelSelector")
            if field_selector and not name:
                name = single_name(field_selector)
        attributes = Attributes(
            user=request.user,
            verb=verb or request.method.lower(),
            group=target.group,
            version=target.version,
            resource=target.resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=name,
            field_selector=field_selector,
            label_selector=label_selector,
        )
        decision = self._server.authorizer.authorize(attributes)
        request.annotations[REASON] = decision.reason
        if not decision.allowed:
            raise refusal(attributes, decision)

    def _get(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        version = request.parameter("resourceVersion")
        if version and not version.isdigit():
            raise failure(
                500,
                "",
                f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax',
            )
        return self._object(request, call, read.get(self._server, call), form)

    def _list(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        options = list_options(request)
        if "sendInitialEvents" in request.query:
            errors = ErrorList()
            errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
            raise invalid("meta.k8s.io", "ListOptions", "", errors)
        plain = form == JSON_FORM and not (
            options.resource_version or options.resource_version_match or options.continue_
        )
        table = self._server.table(call)
        if plain and (items := self._lists.get(table, call, options)) is not None:
            return render.render_list(call, read.Listing([], self._server.registry.revision), form, items=items)
        listing = read.list_objects(self._server, call, options)
        if plain and not listing.continue_:
            items = render.items_of(call, listing)
            self._lists.keep(table, call, options, items)
            return render.render_list(call, listing, form, items=items)
        return render.render_list(
            call, listing, form, include=request.parameter("includeObject"), now=self._server.clock.now()
        )

    async def _watch(self, request: Request, call: Call, send: Send, audit_id: bytes) -> None:
        form = negotiate(request.header(b"accept"), streaming=True, protobuf=has_message(call.version.type))
        if form.media_type == PROTOBUF_TYPE and form.transform == "Table":
            raise not_marshalable(f"{form.version}.Table")
        options = list_options(request)
        bookmarks = request.flag("allowWatchBookmarks")
        send_initial = _send_initial(request, options.resource_version_match)
        timeout_text = request.parameter("timeoutSeconds")
        timeout = float(integer(timeout_text)) if timeout_text else self._server.random.uniform(1800, 3600)
        include = check_include(request.parameter("includeObject")) if form.transform == "Table" else ""
        try:
            start = read.start_watch(self._server, call, options, send_initial=send_initial)
        except StatusError as error:
            if not error.is_expired:
                raise
            await send_error_stream(send, error, form, audit_id)
            return
        stream = WatchStream(
            call,
            start,
            form,
            include=include,
            bookmarks=bookmarks,
            initial_bookmark=bookmarks and bool(send_initial),
            timeout=timeout,
            revision=lambda: self._server.registry.revision,
            now=self._server.clock.now,
        )
        await stream.run(send, request.receive, audit_id)

    async def _create(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        query = write_query(request, "CreateOptions")
        call = call.but(
            dry_run=query.dry_run,
            field_manager=query.field_manager,
            field_validation=query.field_validation,
        )
        if call.subresource:
            outcome = await connect_create(
                self._server, call, await decode_object(request, call, _POSTED[call.subresource])
            )
            answered = _TOKEN if call.subresource == "token" else _STATUS
            shown = {"kind": answered.kind, "apiVersion": answered.api_version} | _plain(outcome)
            return render.render_plain(shown, dataclasses.replace(form, transform=""), status=201)
        if call.name:
            raise wrong_method()
        obj = call.version.to_hub(await decode_object(request, call))
        entry = await create.create(self._server, call, obj)
        request.created_name = entry.object.metadata.name
        return self._object(request, call, entry, form, status=201)

    async def _update(self, request: Request, call: Call) -> Response:
        if not call.name:
            raise wrong_method()
        form = self._form(request, call)
        query = write_query(request, "UpdateOptions")
        call = call.but(
            dry_run=query.dry_run,
            field_manager=query.field_manager,
            field_validation=query.field_validation,
        )
        obj = call.version.to_hub(await decode_object(request, call))
        entry = await update.update(self._server, call, obj)
        return self._object(request, call, entry, form)

    async def _patch(self, request: Request, call: Call) -> Response:
        if not call.name:
            raise wrong_method()
        form = self._form(request, call)
        patch_type = _patch_type(request)
        query = write_query(request, "PatchOptions", apply=patch_type is PatchType.APPLY)
        call = call.but(
            dry_run=query.dry_run,
            field_manager=query.field_manager,
            field_validation=query.field_validation,
            force=query.force,
        )
        raw = await request.body()
        try:
            body = load_values(raw, "application/yaml" if patch_type is PatchType.APPLY else "application/json")
        except ValueError as error:
            word = "error decoding YAML: " if patch_type is PatchType.APPLY else "error decoding patch: "
            raise bad_request(f"{word}{error}") from None
        repeated = _repeated(raw, body, call, patch_type)
        outcome = await patch.patch(self._server, call, patch_type, body, repeated=repeated)
        return self._object(request, call, outcome.entry, form, status=201 if outcome.created else 200)

    async def _scale(self, request: Request, call: Call) -> Response:
        form = dataclasses.replace(self._form(request, call), transform="")
        if call.verb == "get":
            scale = scale_of(read.get(self._server, call).object)
        elif call.verb == "update":
            query = write_query(request, "UpdateOptions")
            call = call.but(dry_run=query.dry_run, field_manager=query.field_manager)
            wanted = await decode_object(request, call, SCALE)
            scale = await set_scale(self._server, call, lambda _: wanted)
        else:
            patch_type = _patch_type(request)
            query = write_query(request, "PatchOptions", apply=patch_type is PatchType.APPLY)
            call = call.but(dry_run=query.dry_run, field_manager=query.field_manager)
            body = load_values(await request.body(), "application/json")
            scale = await set_scale(
                self._server, call, lambda now: patch.patched_part(call, SCALE, now, patch_type, body)
            )
        return render.render_plain({"kind": "Scale", "apiVersion": "autoscaling/v1"} | _plain(scale), form)

    async def _delete(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        options = _checked(await decode_delete_options(request))
        call = call.but(dry_run=bool(options.dry_run))
        deletion = await delete.delete(self._server, call, options)
        if deletion.gone and not call.definition.strategy.returns_deleted_object:
            details: dict[str, Any] = {"name": call.name}
            if call.definition.group:
                details["group"] = call.definition.group
            details |= {"kind": call.definition.plural, "uid": deletion.entry.object.metadata.uid}
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return render.render_plain(status, dataclasses.replace(form, transform=""), warnings=call.warnings)
        return self._object(request, call, deletion.entry, form)

    async def _delete_collection(self, request: Request, call: Call) -> Response:
        form = self._form(request, call)
        options = _checked(await decode_delete_options(request))
        call = call.but(dry_run=bool(options.dry_run))
        listed = list_options(request)
        selection = Selection.parse(call.definition, call.namespace, listed.label_selector, listed.field_selector)
        deletions = await delete.delete_collection(self._server, call, selection, options)
        listing = read.Listing([deletion.entry for deletion in deletions], self._server.registry.revision)
        return render.render_list(call, listing, form, now=self._server.clock.now())

    def _object(self, request: Request, call: Call, entry: Entry, form: Form, *, status: int = 200) -> Response:
        if form.transform:
            internal = call.definition.group.partition(".")[0] or "core"
            form = fit_for_object(form, f"{internal}.{call.definition.kind}")
        return render.render_object(
            call, entry, form, status=status, include=request.parameter("includeObject"), now=self._server.clock.now()
        )

    @staticmethod
    def _form(request: Request, call: Call) -> Form:
        return negotiate(
            request.header(b"accept"),
            listing=call.verb in {"list", "watch"},
            protobuf=has_message(call.version.type),
        )


def _no_component_statuses(request: Request, target: Target) -> Response:
    """The components are parts of one process, which answers: there is nothing to tell of them."""
    if target.subresource or target.namespace:
        raise not_served()
    if request.method != "GET":
        raise wrong_method()
    if target.name:
        raise not_found(GroupResource("", "componentstatuses"), target.name)
    warning = render.warning_headers(["v1 ComponentStatus is deprecated in v1.19+"])
    listed = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}
    return json_response(listed, 200, warning)


def _needs_latest(request: Request, verb: str, seen: int) -> bool:
    """Whether the answer must know what other servers on the same store have acknowledged."""
    if verb not in {"get", "list", "watch"}:
        return True
    version = request.parameter("resourceVersion")
    return not version or (version.isascii() and version.isdigit() and int(version) > seen)


def _addressable(target: Target, *, namespaced: bool) -> bool:
    """Whether the path has the parts that the resource's objects have, and no more."""
    if target.rest:
        return False
    if namespaced:
        return bool(target.namespace) or not target.name
    return not target.namespace or target.resource == "namespaces"


def _plain(value: Any) -> dict[str, Any]:
    from cathedra.api.struct import to_dict

    plain: dict[str, Any] = to_dict(value)
    return plain


def _patch_type(request: Request) -> PatchType:
    given = request.header(b"content-type").partition(";")[0].strip()
    try:
        return PatchType(given)
    except ValueError:
        raise failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", StatusDetails()) from None


def _repeated(raw: bytes, parsed: Any, call: Call, patch_type: PatchType) -> tuple[str, ...]:
    """The problems with fields that a patch says twice.

    Raises:
        StatusError: 400, an applied body does in strict validation.
    """
    if call.field_validation == "Ignore":
        return ()
    repeated = repeated_fields(raw, parsed)
    if patch_type is PatchType.JSON:
        return tuple(f"json patch {problem}" for problem in repeated)
    if patch_type is not PatchType.APPLY:
        return repeated
    if not repeated and raw.lstrip().startswith(b"{"):
        return ()
    if problem := repeated_yaml_keys(raw):
        if call.field_validation == "Strict":
            raise bad_request(f"error strict decoding YAML: {problem}")
        call.warnings.append(problem)
    return ()


def _send_initial(request: Request, match: str) -> bool | None:
    """Whether the watch begins with what is there; None leaves it to the resource version."""
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


def _checked(options: DeleteOptions) -> DeleteOptions:
    errors = ErrorList()
    if options.orphan_dependents is not None and options.propagation_policy is not None:
        errors.invalid(
            "propagationPolicy",
            options.propagation_policy,
            "orphanDependents and deletionPropagation cannot be both set",
        )
    elif options.propagation_policy is not None and options.propagation_policy not in {
        "Foreground",
        "Background",
        "Orphan",
    }:
        errors.append(_unsupported_policy(options.propagation_policy))
    check_dry_run(errors, options.dry_run)
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    return options


def _unsupported_policy(value: str) -> Any:
    from cathedra.api.field import ErrorType, FieldError

    supported = 'supported values: "Foreground", "Background", "Orphan", "nil"'
    return FieldError(ErrorType.NOT_SUPPORTED, "propagationPolicy", value, supported)
