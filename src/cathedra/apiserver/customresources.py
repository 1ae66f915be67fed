"""Controller of the definitions of custom resources: it serves accepted ones, and removes deleted ones with instances.

It watches the definitions' table. A client that waits for the condition Established finds the kind served, in discovery
and in OpenAPI, by this server and by every other one on the same store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.apiextensions_v1 import (
    CustomResourceDefinition,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
)
from cathedra.api.core.meta_v1 import DeleteOptions
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, encode, replace
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.computation import LARGE
from cathedra.apiserver.custom.conversion import Caller
from cathedra.apiserver.custom.definitions import CRDS
from cathedra.apiserver.custom.kinds import kind_of_definition
from cathedra.apiserver.custom.objects import CustomObject, content, normalized, stored_version, with_content
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.request import Call
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.delete import delete_collection
from cathedra.apiserver.verbs.update import change
from cathedra.kinds.definition import AnyDefinition
from cathedra.semantics.conditions import find_condition, is_true, with_condition

LOG: Final = logging.getLogger(__name__)
_FIRST_DELAY: Final = 0.005
_LONGEST_DELAY: Final = 30.0
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionController:
    """Serves definitions and stops serving them. Made by the server, started once, closed with it."""

    def __init__(self, server: ServerContext, served: ServedDefinitions) -> None:
        self._server = server
        self._served = served
        self._waiting: dict[str, None] = {}
        self._leaving: set[str] = set()
        self._retries: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        """Definition → how often it has failed in a row, and the timer of the next attempt."""
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve the established definitions and watch for changes. Do nothing where definitions are not served."""
        if CRDS not in self._server.registry.by_resource:
            return
        for entry in self._server.registry.table(CRDS).entries():
            if is_established(entry.object):
                self._served.serve(entry.object)
            self._enqueue(entry.key)
        self._server.registry.observe(CRDS, self._changed)

    async def close(self) -> None:
        """Stop watching and retrying."""
        for _, timer in self._retries.values():
            timer.cancel()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])

    def _changed(self, change: StoredChange) -> None:
        if change.deleted:
            self._waiting.pop(change.entry.key, None)
            self._forget_failures(change.entry.key)
            # In this turn, too: a request that catches up with the removal must not find the kind.
            self._served.withdraw(change.entry.key)
            return
        self._follow(change.entry.object)
        self._enqueue(change.entry.key)

    def _follow(self, obj: CustomResourceDefinition) -> None:
        """Serve a definition that another server has established, unless it has to wait for the worker."""
        # In the turn in which it arrives, not later: a client that has read the condition at the other server may use
        # the kind here as soon as this server has caught up, and would get 404.
        if not self._server.registry.shared or not is_established(obj) or self._served.is_current(obj):
            return
        resource = self._served.resource_of(obj.metadata.name)
        # A write under way would enter an object of the former generation, and a conflict keeps that in force.
        if resource is not None and (
            self._server.registry.table(resource).under_way or self._served.accepted_names(obj)[1] is not None
        ):
            return
        # Compiling a large schema takes so long that it is done in a thread.
        if len(encode(obj)) >= LARGE:
            return
        try:
            self._served.serve(obj)
        except StorageError as error:
            LOG.error("the definition %s cannot be served: %s", obj.metadata.name, error)

    def _enqueue(self, name: str) -> None:
        self._waiting[name] = None
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="custom resources")

    async def _work(self) -> None:
        while self._waiting:
            name = next(iter(self._waiting))
            del self._waiting[name]
            entry = self._server.registry.table(CRDS).get(name)
            if entry is None:
                continue
            try:
                await self._reconcile(entry.object)
            except (StatusError, StorageError, WriteConflict) as error:
                delay = self._retry(name)
                LOG.warning("the definition %s could not be served, next attempt in %.3f s: %s", name, delay, error)
            else:
                self._forget_failures(name)

    def _retry(self, name: str) -> float:
        """Retry a definition with exponential back-off. Return the delay in seconds."""
        failures, timer = self._retries.get(name, (0, None))
        if timer is not None:
            timer.cancel()
        delay: float = min(_FIRST_DELAY * 2**failures, _LONGEST_DELAY)
        timer = asyncio.get_running_loop().call_later(delay, self._enqueue, name)
        self._retries[name] = (failures + 1, timer)
        return delay

    def _forget_failures(self, name: str) -> None:
        _, timer = self._retries.pop(name, (0, None))
        if timer is not None:
            timer.cancel()

    async def _reconcile(self, obj: CustomResourceDefinition) -> None:
        if obj.metadata.deletion_timestamp is not None:
            await self._clean_up(obj)
            return
        names, problem = self._served.accepted_names(obj)
        now = Time(self._server.clock.now())
        if problem is None:
            await self._replace_served(obj)
            accepted = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
            established = _condition(
                "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now
            )
        else:
            reason, message = problem
            accepted = _condition("NamesAccepted", "False", reason, message, now)
            established = _condition("Established", "False", "NotAccepted", "not all names are accepted", now)
            if is_established(obj):
                established = find_condition(obj.status.conditions or (), "Established") or established

        def settled(entry: StoredObject) -> CustomResourceDefinition:
            current: CustomResourceDefinition = entry.object
            conditions = with_condition(with_condition(current.status.conditions or (), accepted), established)
            return replace(current, status=replace(current.status, conditions=conditions, accepted_names=names))

        await change(self._server, self._call(obj, "status"), settled)

    async def _replace_served(self, obj: CustomResourceDefinition) -> None:
        if self._served.is_current(obj):
            return
        definition = None
        if len(encode(obj)) >= LARGE:
            definition = await self._server.computations.compute(lambda _: self._served.kind_of(obj), LOOPBACK.name)
        resource = self._served.resource_of(obj.metadata.name)
        if resource is not None:
            await self._server.registry.all_quiet(resource)
        self._served.serve(obj, definition)

    async def _clean_up(self, obj: CustomResourceDefinition) -> None:
        """Delete every instance, then remove the finalizer of the definition."""
        if CLEANUP not in obj.metadata.finalizers:
            return
        resource = self._served.resource_of(obj.metadata.name)
        if resource is not None and not await self._delete_instances(resource):
            self._await_the_last(obj.metadata.name, resource)
            return

        def released(entry: StoredObject) -> CustomResourceDefinition:
            current: CustomResourceDefinition = entry.object
            left = tuple(name for name in current.metadata.finalizers if name != CLEANUP)
            return replace(current, metadata=replace(current.metadata, finalizers=left))

        await change(self._server, self._call(obj, ""), released)

    async def _delete_instances(self, resource: GroupResource) -> bool:
        """Delete the instances. Return True if none is left; a finalizer may hold some."""
        table = self._server.registry.table(resource)
        definition = table.definition
        if not definition.versions:
            return True
        call = Call.on(definition, definition.versions[0], user=LOOPBACK, verb="deletecollection")
        await delete_collection(self._server, call, Selection(), DeleteOptions())
        return len(table) == 0

    def _await_the_last(self, name: str, resource: GroupResource) -> None:
        """Clean up again when the last instance has gone."""
        if name in self._leaving:
            return
        self._leaving.add(name)
        table = self._server.registry.table(resource)

        def looked(change: StoredChange) -> None:
            if change.deleted and not len(table):
                self._leaving.discard(name)
                self._enqueue(name)

        table.observe(looked)

    def _call(self, obj: CustomResourceDefinition, subresource: str) -> Call:
        definition = self._server.registry.table(CRDS).definition
        return Call.on(
            definition,
            definition.versions[0],
            user=LOOPBACK,
            verb="update",
            name=obj.metadata.name,
            subresource=subresource,
        )


def _condition(kind: str, status: str, reason: str, message: str, now: Time) -> CustomResourceDefinitionCondition:
    return CustomResourceDefinitionCondition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=now
    )


_NAMES: Final = (
    ("plural", "PluralConflict", "resources"),
    ("singular", "SingularConflict", "resources"),
    ("short_names", "ShortNamesConflict", "resources"),
    ("kind", "KindConflict", "kinds"),
    ("list_kind", "ListKindConflict", "kinds"),
)
"""Field of the names, reason of its conflict, and with what it may conflict, in the order in which they are checked."""


def is_established(obj: CustomResourceDefinition) -> bool:
    """Return True if the definition has the condition Established."""
    return is_true(obj.status.conditions or (), "Established")


class ServedDefinitions:
    """The definitions of custom resources that are served, by name."""

    def __init__(self, registry: Registry, catalog: Catalog, caller: Caller) -> None:
        """``caller`` reaches conversion webhooks."""
        self._registry = registry
        self._catalog = catalog
        self._caller = caller
        self._served: dict[str, tuple[int, GroupResource]] = {}
        """Name → generation, resource."""

    def resource_of(self, name: str) -> GroupResource | None:
        """Return the resource of a definition; None if it is not served."""
        served = self._served.get(name)
        return None if served is None else served[1]

    def is_current(self, obj: CustomResourceDefinition) -> bool:
        """Return True if this generation of the definition is served."""
        served = self._served.get(obj.metadata.name)
        return served is not None and served[0] == obj.metadata.generation

    def kind_of(self, obj: CustomResourceDefinition) -> AnyDefinition:
        """Return the kind that a definition adds. It may be called in any thread."""
        return kind_of_definition(obj, self._caller)

    def serve(self, obj: CustomResourceDefinition, definition: AnyDefinition | None = None) -> None:
        """Serve a definition, or a new generation of it; then no write on its instances may be under way.
        ``definition`` is its kind, where it has been made.

        Raises:
            StorageError: an instance that the store holds cannot be read.
        """
        definition = definition or self.kind_of(obj)
        if obj.metadata.name in self._served:
            self._registry.redefine_table(definition, _adapted)
        else:
            self._registry.add_table(definition, _adapted)
        self._catalog.add(definition)
        self._served[obj.metadata.name] = (obj.metadata.generation, definition.group_resource)

    def withdraw(self, name: str) -> None:
        """Stop serving a definition."""
        served = self._served.pop(name, None)
        if served is not None:
            self._catalog.remove(served[1])
            self._registry.remove_table(served[1])

    def accepted_names(
        self, obj: CustomResourceDefinition
    ) -> tuple[CustomResourceDefinitionNames, tuple[str, str] | None]:
        """Return the names that do not conflict with those of another kind, and reason and message of the last
        conflict, which is the one that Kubernetes shows; None if all names can be accepted.

        A name with a conflict stays unchanged.
        """
        names, own = obj.spec.names, obj.metadata.name
        resources: set[str] = set()
        kinds: set[str] = set()
        for definition in self._others(obj.spec.group, own):
            resources |= {definition.plural, definition.singular, *definition.short_names}
            kinds |= {definition.kind, f"{definition.kind}List"}
        problem: tuple[str, str] | None = None
        accepted = obj.status.accepted_names or CustomResourceDefinitionNames()
        for field, reason, taken in _NAMES:
            wanted = getattr(names, field)
            known = kinds if taken == "kinds" else resources
            conflicts = [name for name in (wanted if field == "short_names" else (wanted,)) if name in known]
            if conflicts:
                problem = reason, f'"{conflicts[0]}" is already in use'
            else:
                accepted = replace(accepted, **{field: wanted})
        return replace(accepted, categories=names.categories), problem

    def _others(self, group: str, own: str) -> Iterator[Any]:
        resource = self.resource_of(own)
        return (one for one in self._catalog if one.group == group and one.group_resource != resource)


def _adapted(definition: Any, obj: CustomObject) -> CustomObject:
    """Return an instance of an earlier definition, adapted to the current one. If a webhook converts versions, the
    instance keeps the version that it was stored in."""
    types = definition.stored_types
    kind = types.get(stored_version(type(obj)), definition.type) if types else definition.type
    return normalized(with_content(kind, obj.metadata, content(obj)))
