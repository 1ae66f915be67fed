"""Default roles and bindings are created when a server starts, and completed if something was taken from them.

What an administrator added stays; what was removed comes back, unless the object has the annotation
``rbac.authorization.kubernetes.io/autoupdate`` to something else than "true" (docs/spec/apimachinery.md §15.2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.authorization.bootstrap.defaults import (
    AUTO_UPDATE,
    cluster_role_bindings,
    cluster_roles,
    role_bindings,
    roles,
)
from cathedra.apiserver.authorization.policyrules import TooManyParts, compact, uncovered
from cathedra.apiserver.authorization.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from cathedra.apiserver.registry.registry import WriteConflict
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.objectmeta import fresh


async def reconcile_roles(server: ServerContext) -> None:
    """Bring the default roles and bindings of the store up to date, all in one commit."""
    writes = [_write(server, wanted) for wanted in _wanted(server)]
    if writes:
        await asyncio.gather(*writes)


class _Wanted(msgspec.Struct, frozen=True):
    resource: GroupResource
    previous: StoredObject | None
    object: Any


def _wanted(server: ServerContext) -> Iterator[_Wanted]:
    gates = server.gates
    for resource, wanted_roles in ((CLUSTER_ROLES, cluster_roles(gates)), (ROLES, roles(gates))):
        table = server.registry.table(resource)
        for role in wanted_roles:
            entry = table.get(_key(role))
            completed = role if entry is None else _completed_role(entry.object, role)
            if completed is not None:
                yield _Wanted(resource, entry, completed)
    for resource, bindings in ((CLUSTER_ROLE_BINDINGS, cluster_role_bindings(gates)), (ROLE_BINDINGS, role_bindings())):
        table = server.registry.table(resource)
        for binding in bindings:
            entry = table.get(_key(binding))
            filled = binding if entry is None else _completed_binding(entry.object, binding)
            if filled is not None:
                yield _Wanted(resource, entry, filled)


def _key(obj: Any) -> str:
    namespace, name = obj.metadata.namespace, obj.metadata.name
    return f"{namespace}/{name}" if namespace else name


async def _write(server: ServerContext, wanted: _Wanted) -> None:
    obj = wanted.object
    if wanted.previous is None:
        obj = replace(obj, metadata=fresh(obj.metadata, server.clock.now(), server.random))
    table = server.registry.table(wanted.resource)
    try:
        await server.registry.put(table, _key(obj), wanted.previous, obj)
    except WriteConflict:
        return  # another server on the same store wrote the same object first


def _completed_role(stored: Any, role: ClusterRole | Role) -> Any:
    """Return the stored role with its missing rules and labels; None if none are missing or it must stay as it is."""
    # Administrators switch the annotation off to keep a role as they have changed it.
    if stored.metadata.annotations.get(AUTO_UPDATE) != "true":
        return None
    # Rules are added and never removed: those that an administrator has added stay.
    completed = replace(stored, metadata=_labelled(stored, role))
    if isinstance(role, ClusterRole):
        completed = replace(completed, aggregation_rule=role.aggregation_rule)
    if not isinstance(role, ClusterRole) or role.aggregation_rule is None:
        try:
            missing = compact(uncovered(stored.rules or (), role.rules or ()))
        except TooManyParts:
            missing = []  # an administrator has added thousands of rules, which cannot be compared in bounded time
        if missing:
            completed = replace(completed, rules=(*(stored.rules or ()), *missing))
    return completed if completed != stored else None


def _completed_binding(stored: Any, binding: ClusterRoleBinding | RoleBinding) -> Any:
    if stored.metadata.annotations.get(AUTO_UPDATE) != "true":
        return None
    missing = tuple(subject for subject in binding.subjects if subject not in stored.subjects)
    completed = replace(
        stored, metadata=_labelled(stored, binding), subjects=(*stored.subjects, *missing), role_ref=binding.role_ref
    )
    return completed if completed != stored else None


def _labelled(stored: Any, wanted: Any) -> Any:
    return replace(stored.metadata, labels={**stored.metadata.labels, **wanted.metadata.labels})
