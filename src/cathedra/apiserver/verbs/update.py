"""Update: a changed object replaces the stored one, unless another write was faster (docs/spec/apimachinery.md §5).

PUT, every form of patch, and the sub-resources that change an object (status, binding, scale …) all end here. They
differ in how they make the new object from the stored one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from types import CoroutineType
from typing import Any, Final

from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.status import StatusError, bad_request, conflict, failure, invalid, not_found
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.computation import LARGE
from cathedra.apiserver.ownership.tracking import tracked
from cathedra.apiserver.queryvalues import NumberError, parse_uint64
from cathedra.apiserver.registry.registry import WriteConflict
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.request import Call, CallAnswer
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.create import create, in_namespace
from cathedra.apiserver.verbs.objectmeta import kept, without_duplicate_owners
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.metadata import validate_changed_metadata

MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"
ATTEMPTS: Final = 5

Transform = Callable[[StoredObject], Coroutine[Any, Any, Any] | Any]
"""Returns the wanted object (hub version, with defaults) for a stored state."""


def update(server: ServerContext, call: Call, obj: KubeObject) -> Coroutine[Any, Any, CallAnswer]:
    """Replace the stored object by ``obj``, as decoded; objects of some kinds are also created so.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    if type(obj) is not call.definition.type:  # most kinds have one version, whose type is the hub type
        obj = call.version.to_hub(obj)
    sent, strategy = as_addressed(call, obj), call.strategy
    # Leases and a few other kinds are created by PUT (``AllowCreateOnUpdate`` of their strategy upstream).
    if strategy.allow_create_on_update and not call.subresource and server.find(call) is None:
        return create(server, call, sent)
    context = server.strategy_context(call)

    def wanted(stored: StoredObject) -> Any:
        new = strategy.default_change(sent, stored.object, context)
        return tracked(call, stored.object, new, context.now, stored.body)

    return change(server, call, wanted, uid=sent.metadata.uid, context=context)


def as_addressed(call: Call, obj: KubeObject) -> Any:
    """Return the object, if it has the name and namespace of the URL.

    Raises:
        StatusError: 400, it has others.
    """
    name = obj.metadata.name
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    return in_namespace(call, obj)


async def change(
    server: ServerContext,
    call: Call,
    transform: Transform,
    *,
    uid: str = "",
    context: RequestContext | None = None,
) -> CallAnswer:
    """Change the stored object by ``transform``. After a race with another writer it is called again on the newer
    state, unless the wanted object names the resource version that it was made from. ``context`` is that of the
    call, if the caller has it.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    (table, key), strategy = server.place(call, call.name), call.strategy
    converts, rounds = call.definition.conversion is not None, 0 if call.subresource else strategy.metadata_checks
    context = context or server.strategy_context(call)
    for attempt in range(ATTEMPTS):
        entry = await server.registry.quiet(table, key) if key in table.under_way else table.get(key)
        if entry is None:
            raise not_found(call.resource, call.name)
        # The name may belong to another object by now, which the client has never seen.
        if uid and entry.object.metadata.uid != uid:
            present = entry.object.metadata.uid
            raise precondition_failed(call, key, f"UID in precondition: {uid}, UID in object meta: {present}")
        seen = await server.seen_one(call, entry) if converts else entry
        wanted: Any
        if call.size < LARGE and not (call.verb == "patch" and len(seen.body(call.version)) >= LARGE):
            wanted = transform(seen)
        else:
            wanted = await server.beside_loop(call, partial(transform, seen))
        if type(wanted) is CoroutineType:
            wanted = await wanted
        old, called = seen.object, server.admission.called(call, "UPDATE")
        if called.admitting:
            wanted = await server.admission.admit(AdmissionAttributes(call, "UPDATE", wanted, old), called)
        metadata, before = wanted.metadata, old.metadata
        # The optimistic lock of Kubernetes: an update that was made from another state is refused, and no change of
        # another client is lost.
        if metadata.resource_version != before.resource_version:
            _check_version(call, metadata)
        # After admission, so that no plugin or webhook changes the fields of the server.
        metadata = kept(metadata, before)
        if metadata.owner_references is not before.owner_references:
            metadata = without_duplicate_owners(call, metadata)
        # Objects that do not change stay the same Python object: memos and comparisons go by identity.
        if metadata is not wanted.metadata:
            wanted = replace(wanted, metadata=metadata)
        new = strategy.prepare_update(wanted, old, context)
        errors = validate_changed_metadata(new.metadata, before, context.gates, rounds=rounds)
        if strategy.is_lengthy:
            errors += await server.validated(call, context, new, partial(strategy.validate_update, new, old))
        else:
            errors += strategy.validate_update(new, old, context)
        if errors:
            raise invalid(call.definition.kept_group, call.definition.kind, call.name, errors)
        if warnings := strategy.warnings(new, old, context):
            call.warnings.extend(warnings)
        if called.validating:
            await server.admission.validate(AdmissionAttributes(call, "UPDATE", new, old), called)
        try:
            if converts or call.dry_run or new.metadata.deletion_timestamp is not None or new == old:
                return CallAnswer(call, entry=await _settled(server, call, table, entry, seen, new))
            return CallAnswer(call, entry=await server.registry.put(table, key, entry, new))
        # Another write came first. The transform runs again on the newer state, as in ``GuaranteedUpdate``.
        except WriteConflict:
            # A bound, so that a request cannot run for ever against a controller that writes the object in a loop.
            if attempt == ATTEMPTS - 1:
                raise conflict(call.resource, call.name, MODIFIED) from None
    raise AssertionError("the last attempt returns or raises")


async def _settled(
    server: ServerContext, call: Call, table: Table, entry: StoredObject, seen: StoredObject, new: Any
) -> StoredObject:
    """Settle a change that is no plain write: of an object that is being deleted or that a webhook converts, a dry run,
    and one without a difference."""
    # A write without a change gets no revision and no event, as in Kubernetes.
    unchanged = new == seen.object
    conversion = call.definition.conversion
    written = new if conversion is None or unchanged else await server.stored(call, new)
    # The update has removed the last finalizer: the object goes now.
    if new.metadata.deletion_timestamp is not None and vanishes(call, new):
        # Removed without writing the state without finalizer first, as in Kubernetes: watchers see one event.
        if call.dry_run:
            return await server.registry.dry_run(table, entry.key, entry, new)
        await server.registry.remove(table, entry, entry.object)
        return StoredObject(entry.key, new, entry.revision)
    if unchanged:
        # The store still compares: the state must be the latest, or the answer would confirm an old one.
        await server.registry.put(table, entry.key, entry, entry.object)
        return seen
    if call.dry_run:
        return await server.registry.dry_run(table, entry.key, entry, new)
    stored = await server.registry.put(table, entry.key, entry, written)
    return stored if conversion is None else await server.seen_one(call, stored)


def _check_version(call: Call, wanted: ObjectMeta) -> None:
    """Check the resource version of a change; a change may name none."""
    if wanted.resource_version:
        try:
            parse_uint64(wanted.resource_version)
        except NumberError as error:
            raise failure(500, "", str(error)) from None
    if wanted.resource_version in {"", "0"}:
        if call.strategy.allow_unconditional_update:
            return
        errors = ErrorList()
        errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(call.definition.group, call.definition.plural, call.name, errors)
    raise conflict(call.resource, call.name, MODIFIED)


def vanishes(call: Call, obj: KubeObject) -> bool:
    """Return True if nothing keeps an object that is being deleted."""
    metadata = obj.metadata
    if metadata.deletion_timestamp is None or metadata.finalizers or metadata.deletion_grace_period_seconds:
        return False
    return not call.definition.deletion.is_held(obj)


def precondition_failed(call: Call, key: str, why: str) -> StatusError:
    """Return the 409 of a request for another object of the same name, or another state of the object."""
    return conflict(
        call.resource,
        call.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{call.definition.plural}/{key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}",
    )
