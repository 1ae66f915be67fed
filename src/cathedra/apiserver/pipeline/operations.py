"""Calls on served resources: from a `RequestInfo` to a `Call`, and from a call to its `CallAnswer`.

Every transport decodes its own bytes to a call and an object, and encodes the answer. This module has what lies between
and is the same for all of them: the route, the refusals that depend on it, and what reads, creations and deletions of
collections need beside their verb. Updates, patches and deletions of one object are calls of their verb.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions, StatusDetails
from cathedra.api.field import ErrorList, ErrorType, FieldError
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import StatusError, failure, invalid
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call, CallAnswer, Listing
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.apiserver.routes import Route
from cathedra.apiserver.subresources.dispatch import connect_create
from cathedra.apiserver.subresources.reviews import REVIEWS, Review
from cathedra.apiserver.verbs import create, delete, read
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.transport import ListOptions, WatchEvent
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.releases import behaviours

MANAGER_LIMIT: Final = 128
"""Bytes that the name of a field manager may have."""
VALIDATIONS: Final = frozenset({"", "Ignore", "Warn", "Strict"})
"""The ways to handle unknown fields; "" is Warn."""
_POLICIES: Final = frozenset({"Foreground", "Background", "Orphan"})


class WriteQuery(msgspec.Struct, frozen=True):
    """Dry run, field manager, field validation, force."""

    dry_run: bool
    field_manager: str
    field_validation: str
    force: bool
    applies: bool = False
    """True for a server-side apply."""


class ResourceOperations:
    """Makes calls of authorized requests on the resources of one server, and carries out those that are more than a
    verb."""

    def __init__(self, server: ServerContext, catalog: Catalog) -> None:
        self._server = server
        self._catalog = catalog
        self._release = server.gates.release

    def route(self, info: RequestInfo) -> Route | None:
        """Return the route of a request; None if there is no such resource."""
        return self._catalog.by_key.get((info.group, info.version, info.resource, info.subresource))

    def begin(self, record: RequestRecord, route: Route) -> Call:
        """Return the call of a request on a resource with stored objects.

        Raises:
            StatusError: 404, the path has parts that the resource's objects do not have; 405, the resource does not
                have the verb there.
        """
        info, definition, version = record.info, route.definition, route.served
        if definition is None or version is None:
            raise not_served()
        if not info.verb:
            raise wrong_method()
        if not info.addresses(namespaced=route.namespaced):
            raise not_served()
        if not allows(route, info):
            raise wrong_method()
        # After the checks: a refused method gets no warning.
        if version.deprecation_warning:
            record.warnings.append(version.deprecation_warning)
        # The sub-resource of the route, and not the equal text of the path: memos of admission go by identity.
        return self.call(record, definition, version, route.subresource)

    def call(
        self, record: RequestRecord, definition: AnyDefinition, version: VersionDefinition, subresource: str
    ) -> Call:
        """Return a request, as verbs take it. Warnings and audit annotations that they add go to the record."""
        info = record.info
        return Call(
            user=record.acting,
            verb=info.verb,
            definition=definition,
            version=version,
            strategy=definition.strategy_of(subresource),
            namespace=info.namespace if definition.namespaced else "",
            name=info.name,
            subresource=subresource,
            release=self._release,
            trusted=record.trusted,
            warnings=record.warnings,
            annotations=record.annotations,
        )

    async def get(self, call: Call) -> CallAnswer:
        """Return one object.

        Raises:
            StatusError: 404, it does not exist.
        """
        entry = read.get(self._server, call)
        if call.definition.conversion is not None:
            entry = await self._server.seen_one(call, entry)
        return CallAnswer(call, entry=entry)

    async def list(self, call: Call, options: ListOptions) -> CallAnswer:
        """Return the objects that match, a page at most.

        Raises:
            StatusError: the options are invalid, or the revision is too old or in the future.
        """
        listing = read.list_objects(self._server, call, options)
        if call.definition.conversion is not None:
            entries = await self._server.seen(call, listing.entries)
            listing = msgspec.structs.replace(listing, entries=entries)
        return CallAnswer(call, listing=listing)

    def watch(self, call: Call, options: ListOptions, *, send_initial: bool | None = None) -> read.WatchStart:
        """Begin a watch. The caller takes events off its watcher, and stops it.

        Raises:
            StatusError: the options are invalid; 410, the revision is too old.
        """
        return read.start_watch(self._server, call, options, send_initial=send_initial)

    async def events(self, call: Call, start: read.WatchStart) -> AsyncIterator[Sequence[WatchEvent[Any]]]:
        """Yield the events of a watch as they arrive, with objects in the version of the call, until the server ends
        it."""
        version, seen_one, kind = call.version, self._server.seen_one, call.version.type
        for seen in start.initial_events():
            yield (WatchEvent(seen.type, (await seen_one(call, seen.entry)).view(version)),)
        converted = call.definition.conversion is not None
        while batch := await start.watcher.take():
            if converted:
                for seen in batch:
                    yield (WatchEvent(seen.type, (await seen_one(call, seen.entry)).view(version)),)
                continue
            # Fast path: objects are stored in the version that nearly all watches have.
            yield [
                WatchEvent(seen.type, obj if type(obj := seen.entry.object) is kind else seen.entry.view(version))
                for seen in batch
            ]

    def create(self, call: Call, obj: Any) -> Coroutine[Any, Any, CallAnswer]:
        """Create an object, answer a review, or carry out a POST on a sub-resource.

        Raises:
            StatusError: it is refused.
        """
        # Not a coroutine itself: every frame on the way of a write costs time.
        if call.subresource:
            return connect_create(self._server, call, obj)
        if (review := REVIEWS.get(call.definition.group_resource)) is not None:
            return self._reviewed(call, review, obj)
        return create.create(self._server, call, obj)

    async def _reviewed(self, call: Call, review: Review, obj: Any) -> CallAnswer:
        """Answer a review, which is not stored."""
        return CallAnswer(call, 201, value=review.answer(self._server, call, obj))

    async def delete_collection(self, call: Call, listed: ListOptions, options: DeleteOptions) -> CallAnswer:
        """Delete all objects that match, and return them as they were before.

        Raises:
            StatusError: it is refused.
        """
        selection = Selection.parse(call.definition, call.namespace, listed.label_selector, listed.field_selector)
        deleted = await delete.delete_collection(self._server, call, selection, options)
        return CallAnswer(call, listing=Listing(deleted, self._server.registry.revision))


def deletion_status(call: Call, entry: StoredObject) -> JSONObject:
    """Return the Status that a deletion is answered with once the object is gone."""
    details: JSONObject = {"name": call.name}
    if call.definition.group:
        details["group"] = call.definition.group
    details |= {"kind": call.definition.plural, "uid": entry.object.metadata.uid}
    has_revision = behaviours.ANSWERS_HAVE_REVISION.holds_in(call.release)
    metadata: JSONObject = {"resourceVersion": str(entry.revision)} if has_revision else {}
    return {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Success", "details": details}


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


def allows(route: Route, info: RequestInfo) -> bool:
    """Return True if the resource has the verb where the path stands.

    Objects are created in a namespace, if they have one, and by name only in sub-resources; collections are deleted
    namespace by namespace; the old watch paths allow nothing but watching.
    """
    if info.verb not in route.verbs or (info.watch_path and not info.reads):
        return False
    if info.verb == "create":
        return not (route.namespaced and not info.namespace) and bool(info.name) is bool(info.subresource)
    if info.verb == "deletecollection":
        return not (route.namespaced and not info.namespace)
    return bool(info.name) or info.verb in {"list", "watch"}


def checked_write(kind: str, query: WriteQuery, *, dry_run: Sequence[str] = (), forces: bool = False) -> WriteQuery:
    """Return the options of a write; ``kind`` is CreateOptions, UpdateOptions or PatchOptions.

    ``dry_run`` are the values of that parameter. ``forces`` is true if force is named.

    Raises:
        StatusError: 422, some are invalid.
    """
    errors, manager = ErrorList(), query.field_manager
    if query.applies:
        if not manager:
            errors.required("fieldManager", "is required for apply patch")
    elif forces and kind == "PatchOptions":
        errors.forbidden("force", "may not be specified for non-apply patch")
    # Bytes and not letters, as upstream (``FieldManagerMaxLength``).
    if len(manager.encode()) > MANAGER_LIMIT:
        errors.too_long("fieldManager", MANAGER_LIMIT)
    if not manager.isprintable():
        _check_letters(errors, manager)
    check_dry_run(errors, dry_run)
    if query.field_validation not in VALIDATIONS:
        errors.string_not_among("fieldValidation", query.field_validation, ["", "Ignore", "Strict", "Warn"])
    if errors:
        raise invalid("meta.k8s.io", kind, "", errors)
    return query


def manager_named(agent: str) -> str:
    """Return the field manager of writes that name none: the first word of the user agent."""
    # As long as a manager may be: a longer agent must not make writes invalid that name no manager.
    return agent.partition("/")[0][:MANAGER_LIMIT]


def _check_letters(errors: ErrorList, manager: str) -> None:
    position = 0
    for letter in manager:
        if not letter.isprintable():
            errors.invalid("fieldManager", manager, f"invalid character U+{ord(letter):04X} (at position {position})")
        position += len(letter.encode())


def check_dry_run(errors: ErrorList, values: Sequence[str]) -> None:
    """Add an error for every dry run other than ``All``, the only one there is."""
    if any(value != "All" for value in values):
        errors.not_supported("dryRun", list(values), ["All"])


def checked_deletion(options: DeleteOptions) -> DeleteOptions:
    """Return the options of a deletion.

    Raises:
        StatusError: 422, some are invalid.
    """
    errors = ErrorList()
    policy = options.propagation_policy
    if options.orphan_dependents is not None and policy is not None:
        errors.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
    elif policy is not None and policy not in _POLICIES:
        supported = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        errors.append(FieldError(ErrorType.NOT_SUPPORTED, "propagationPolicy", policy, supported))
    check_dry_run(errors, options.dry_run)
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    return options
