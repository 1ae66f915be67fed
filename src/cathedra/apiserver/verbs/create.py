"""Create: a new object with a name, a UID and the defaults of its kind (docs/spec/apimachinery.md §5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from cathedra.api.formats import dns_subdomain
from cathedra.api.status import already_exists, bad_request, failure, invalid
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
from cathedra.apiserver.verbs.objectmeta import fresh, without_duplicate_owners
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.metadata import validate_new_metadata, validate_path_name
from cathedra.kinds.resource.expressions import MAX_EXPRESSION

NAME_ATTEMPTS: Final = 8


def create(server: ServerContext, call: Call, obj: Any) -> Coroutine[Any, Any, CallAnswer]:
    """Create ``obj``, as decoded. The answer has it as stored; in a dry run, as it would have been.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    if type(obj) is not call.definition.type:  # most kinds have one version, whose type is the hub type
        obj = call.version.to_hub(obj)
    obj = in_namespace(call, obj)
    metadata = obj.metadata
    # An author cannot create an object that is being deleted.
    if metadata.deletion_timestamp is not None or metadata.deletion_grace_period_seconds is not None:
        metadata = replace(metadata, deletion_timestamp=None, deletion_grace_period_seconds=None)
    if len(metadata.owner_references) > 1:
        metadata = without_duplicate_owners(call, metadata)
    if metadata is not obj.metadata:
        obj = replace(obj, metadata=metadata)
    context = server.strategy_context(call)
    if call.size < LARGE and call.definition.conversion is None:
        owned = tracked(call, None, call.strategy.default(obj, context), context.now)
        return create_defaulted(server, call, owned, context)
    return _create_slowly(server, call, obj, context)


async def _create_slowly(server: ServerContext, call: Call, obj: Any, context: RequestContext) -> CallAnswer:
    """Create an object that is large, or that a webhook converts."""
    if call.size < LARGE:
        obj = _owned(call, obj, context)
    else:
        obj = await server.beside_loop(call, partial(_owned, call, obj, context))
    if isinstance(obj, Awaitable):
        obj = await obj
    return await create_defaulted(server, call, obj, context)


def _owned(call: Call, obj: Any, context: RequestContext) -> Any | Awaitable[Any]:
    """Return an object with its defaults and the owners of its fields."""
    return tracked(call, None, call.strategy.default(obj, context), context.now)


async def create_defaulted(server: ServerContext, call: Call, obj: Any, context: RequestContext) -> CallAnswer:
    """Create an object whose defaults and field owners are filled in already.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    named = obj.metadata.name
    # Defaults come before admission, so plugins and webhooks see a complete object; validation comes after it, so that
    # what they changed is validated too.
    called = server.admission.called(call, "CREATE")
    if called.admitting:
        obj = await server.admission.admit(AdmissionAttributes(call, "CREATE", obj, None), called)
    definition, strategy, metadata = call.definition, call.strategy, obj.metadata
    if warnings := strategy.preparation_warnings(obj):
        call.warnings.extend(warnings)
    if len(metadata.owner_references) > 1:
        metadata = without_duplicate_owners(call, metadata)
    now = server.clock.now()
    for attempt in range(NAME_ATTEMPTS):
        # Named before its kind prepares it: labels may contain the name.
        new = strategy.prepare_create(replace(obj, metadata=fresh(metadata, now, server.random)), context)
        name = new.metadata.name
        errors = [
            *strategy.validate_access(new, context),
            *validate_new_metadata(definition, new.metadata, context.gates),
        ]
        if selectors := strategy.selectors(new):
            await _compiled(context, selectors)
        if strategy.is_lengthy:
            errors += await server.validated(call, context, new, partial(strategy.validate_create, new))
        else:
            errors += strategy.validate_create(new, context)
        if not errors and definition.name_rule is not dns_subdomain:  # such a name can stand in a URL
            errors = validate_path_name(new.metadata)
        if errors:
            raise invalid(definition.kept_group, definition.kind, name, errors)
        if warnings := strategy.warnings(new, None, context):
            call.warnings.extend(warnings)
        # An update or an apply that creates needs the right to create as well. It is checked after validation, in the
        # order of Kubernetes.
        if call.verb != "create":
            server.authorize_creation(call)
        if called.validating:
            await server.admission.validate(AdmissionAttributes(call, "CREATE", new, None), called)
        if new.metadata.resource_version:
            new = _without_version(call, new)
        table, key = server.place(call, name)
        # A write of the same key that is not yet durable decides first: if it fails, the key is free.
        present = await server.registry.quiet(table, key) if key in table.under_way else table.get(key)
        if present is None:
            try:
                if definition.conversion is not None or call.dry_run:
                    return CallAnswer(call, 201, await _settled(server, call, table, key, new))
                return CallAnswer(call, 201, await server.registry.put(table, key, None, new))
            except WriteConflict:
                pass
        # A generated name that is taken is no error of the client: another one is generated, as in Kubernetes.
        if named or attempt == NAME_ATTEMPTS - 1:
            raise already_exists(call.resource, name)
    raise AssertionError("the last attempt returns or raises")


async def _settled(server: ServerContext, call: Call, table: Table, key: str, new: Any) -> StoredObject:
    """Settle a creation that is no plain write: a dry run, or of an object that a webhook converts."""
    if call.dry_run:
        return await server.registry.dry_run(table, key, None, new)
    return await server.seen_one(call, await server.registry.put(table, key, None, await server.stored(call, new)))


def in_namespace(call: Call, obj: Any) -> Any:
    """Return the object with the namespace of the request.

    Raises:
        StatusError: 400, the object has another one.
    """
    namespace = obj.metadata.namespace
    if namespace == call.namespace:
        return obj
    if not namespace and call.definition.namespaced:
        return replace(obj, metadata=replace(obj.metadata, namespace=call.namespace))
    if not call.definition.namespaced:
        return replace(obj, metadata=replace(obj.metadata, namespace=""))
    raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


async def _compiled(context: RequestContext, selectors: Sequence[str]) -> None:
    """Compile selectors, whose results the compiler caches. Other tasks run between two of them."""
    if context.expressions is None:
        return
    for expression in dict.fromkeys(selectors):
        if len(expression) <= MAX_EXPRESSION:
            context.expressions.selector(expression, stored=False)
            # Compilation takes milliseconds, and a claim may have many selectors.
            await asyncio.sleep(0)


def _without_version(call: Call, obj: Any) -> Any:
    """Return the object without a resource version: one that is not a number, is none, or comes from a dry run.

    Raises:
        StatusError: 500, it was meant.
    """
    try:
        version = parse_uint64(obj.metadata.resource_version)
    except NumberError:
        version = 0
    if version and not call.dry_run:
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    return replace(obj, metadata=replace(obj.metadata, resource_version=""))
