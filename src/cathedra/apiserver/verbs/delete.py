"""Delete: at once, gracefully, or when the last finalizer is gone (docs/spec/apimachinery.md §7)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from cathedra.api.core.meta_v1 import DeleteOptions, KubeObject, ObjectMeta, Preconditions
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, conflict, failure, forbidden, not_found
from cathedra.api.struct import Time, replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.registry.registry import WriteConflict
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.request import Call, CallAnswer
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.update import ATTEMPTS, MODIFIED

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_TOGETHER: Final = 64
"""Objects of a collection that are deleted concurrently. One after the other, each would wait for two transactions
of its own.
"""


async def delete(server: ServerContext, call: Call, options: DeleteOptions) -> CallAnswer:
    """Delete one object, or mark it as being deleted. The answer has its last or present state.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    if options.dry_run:
        call = call.but(dry_run=True)
    (table, key), definition = server.place(call, call.name), call.definition
    rules, converts = definition.deletion, definition.conversion is not None
    # Before the lookup of the object: the deletion of a permanent namespace is refused even if it does not exist.
    if call.name in rules.permanent:
        raise forbidden(call.resource, call.name, f"this {definition.singular} may not be deleted")
    call.warnings.extend(rules.warnings(options))
    for _ in range(ATTEMPTS):
        entry = await server.registry.quiet(table, key) if key in table.under_way else table.get(key)
        if entry is None:
            raise not_found(call.resource, call.name)
        # Before admission: webhooks are not called for the deletion of another object.
        if options.preconditions is not None:
            _check_preconditions(call, options.preconditions, entry.object.metadata)
        seen = await server.seen_one(call, entry) if converts else entry
        called = server.admission.called(call, "DELETE")
        if called.admitting or called.validating:
            request = AdmissionAttributes(call, "DELETE", None, seen.object, options)
            await server.admission.admit(request, called)
            await server.admission.validate(request, called)
        # A webhook took its time, and another write came first. The newer state must meet the preconditions too.
        if table.get(key) is not entry:
            continue
        try:
            settled, gone = _settled(server, call, table, entry, options)
            state = await settled
        except WriteConflict:
            continue
        return CallAnswer(call, entry=await server.seen_one(call, state) if converts else state, gone=gone)
    raise conflict(call.resource, call.name, MODIFIED)


async def delete_collection(
    server: ServerContext, call: Call, selection: Selection, options: DeleteOptions
) -> list[StoredObject]:
    """Delete every object that matches, in order, up to the first that is refused.

    Some are deleted concurrently, so that they share the sync that makes a write durable. Whether one is refused is
    known before the next begins, unless a webhook is called.

    Raises:
        StatusError: one was refused.
    """
    found = list(server.table(call).select(selection))
    deleted: list[StoredObject] = []
    refused: list[StatusError] = []

    async def one(entry: StoredObject) -> StoredObject | None:
        # Objects after the refused one stay, as far as their deletion has not begun.
        if refused:
            return None
        metadata = entry.object.metadata
        try:
            await delete(server, call.but(namespace=metadata.namespace, name=metadata.name), options)
            return await server.seen_one(call, entry)
        except StatusError as error:
            # An object that is gone already needs no deletion.
            if not error.is_not_found:
                refused.append(error)
            return None

    for begin in range(0, len(found), _TOGETHER):
        async with asyncio.TaskGroup() as tasks:
            under_way = [tasks.create_task(one(entry)) for entry in found[begin : begin + _TOGETHER]]
        deleted += [entry for task in under_way if (entry := task.result()) is not None]
        if refused:
            raise refused[0]
    return deleted


def _settled(
    server: ServerContext, call: Call, table: Table, entry: StoredObject, options: DeleteOptions
) -> tuple[asyncio.Future[StoredObject], bool]:
    """Remove the object or mark it as being deleted. Return the future of its state, and True if it is gone then.

    Raises:
        WriteConflict: as the future, ``entry`` is no longer the latest state.
    """
    old, now, registry = entry.object, server.clock.now(), server.registry
    new = _marked(call, old, options, now)
    if new is not None:
        writing = registry.dry_run if call.dry_run else registry.put
        return writing(table, entry.key, entry, old if new == old else new), False
    last = _ended(old, now) if call.definition.deletion.announced else old
    if call.dry_run:
        return registry.dry_run(table, entry.key, entry, last), True
    # Watchers see each pod end before it goes, even if it is given no time.
    ending = registry.remove if last is old else registry.end
    return ending(table, entry, last), True


def _ended(old: KubeObject, now: float) -> Any:
    """Return the object as being deleted, with no grace left."""
    metadata: ObjectMeta = old.metadata
    ends, generation = metadata.deletion_timestamp, metadata.generation
    if ends is None:
        ends, generation = Time(now), generation + 1
    ended = replace(metadata, deletion_timestamp=ends, deletion_grace_period_seconds=0, generation=generation)
    return replace(old, metadata=ended)


def _marked(call: Call, old: KubeObject, options: DeleteOptions, now: float) -> Any | None:
    """Return the object as being deleted, or None if nothing keeps it."""
    metadata: ObjectMeta = old.metadata
    finalizers = _finalizers(call, metadata, options)
    rules = call.definition.deletion
    grace = rules.grace_period(old, options.grace_period_seconds)
    held = rules.is_held(old)
    if not finalizers and not grace and not held:
        return None
    metadata = replace(metadata, finalizers=finalizers)
    if metadata.deletion_timestamp is None:
        metadata = replace(
            metadata, deletion_timestamp=Time(now + _duration(grace)), deletion_grace_period_seconds=grace
        )
        if metadata.generation:
            metadata = replace(metadata, generation=metadata.generation + 1)
    # A second deletion can shorten the grace period, and never lengthen it.
    elif grace < (metadata.deletion_grace_period_seconds or 0):
        began = metadata.deletion_timestamp.micros // 1_000_000 - _duration(metadata.deletion_grace_period_seconds or 0)
        ends = Time(began + _duration(grace))
        metadata = replace(metadata, deletion_timestamp=ends, deletion_grace_period_seconds=grace)
    marked = replace(old, metadata=metadata)
    return rules.mark(marked) if held else marked


def _finalizers(call: Call, metadata: ObjectMeta, options: DeleteOptions) -> tuple[str, ...]:
    orphan, foreground = _propagation(call, metadata, options)
    finalizers = [name for name in metadata.finalizers if name not in {ORPHAN, FOREGROUND}]
    if metadata.deletion_timestamp is None:
        # Only with the first deletion. The controller that removed its finalizer would otherwise get it back.
        finalizers.extend(call.definition.deletion.finalizers)
    # Both are cleared above and set anew: the last deletion decides what happens to dependents.
    if orphan:
        finalizers.append(ORPHAN)
    if foreground:
        finalizers.append(FOREGROUND)
    return tuple(finalizers) if set(finalizers) != set(metadata.finalizers) else metadata.finalizers


def _propagation(call: Call, metadata: ObjectMeta, options: DeleteOptions) -> tuple[bool, bool]:
    if options.orphan_dependents is not None:
        return options.orphan_dependents, False
    if options.propagation_policy is not None and options.propagation_policy != "":
        return options.propagation_policy == "Orphan", options.propagation_policy == "Foreground"
    if ORPHAN in metadata.finalizers or FOREGROUND in metadata.finalizers:
        return ORPHAN in metadata.finalizers, FOREGROUND in metadata.finalizers
    return call.definition.deletion.orphans_dependents, False


def _duration(seconds: int) -> float:
    """Return seconds as ``time.Duration`` of Go holds them: nanoseconds in 64 bits, which overflow after 292 years."""
    nanoseconds = seconds * 1_000_000_000
    return ((nanoseconds + (1 << 63)) % (1 << 64) - (1 << 63)) / 1e9


def _check_preconditions(call: Call, wanted: Preconditions, metadata: ObjectMeta) -> None:
    if wanted.uid is not None and wanted.uid != metadata.uid:
        raise _precondition_failed(
            call,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({metadata.uid}). "
            "The object might have been deleted and then recreated",
        )
    if wanted.resource_version is not None and wanted.resource_version != metadata.resource_version:
        raise _precondition_failed(
            call,
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({metadata.resource_version}). The object might have been modified",
        )


def _precondition_failed(call: Call, why: str) -> StatusError:
    # Kubernetes names the kind here, not the resource.
    kind = GroupResource(call.definition.group, call.definition.kind)
    error = conflict(kind, call.name, why)
    return failure(error.code, error.reason, error.status.message, error.status.details)
