"""The garbage collector: foreground, background and orphaning deletion (docs/spec/controllers.md §5).

It deletes objects that have lost their owners: pods of jobs, claims of pods, slices of nodes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.core.core_v1 import ObjectReference
from cathedra.api.core.meta_v1 import KubeObject, OwnerReference
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import replace, to_dict
from cathedra.api.undecodable import Undecodable, UndecodableObject
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.transport import PatchType, ResourceRef
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.customkinds import CustomKinds
from cathedra.controllers.finalizers import remove_finalizer
from cathedra.semantics.owners import BY_OWNER, owner_uids, same_owners

WORKERS: Final = 20
SETTLING_SECONDS: Final = 0.1
"""Time for the holders of finalizers to finish with an object whose owner has gone, before it is deleted."""


class GarbageCollector:
    """Keeps the promise of owner references."""

    name = "garbage-collector-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._recorder = context.recorder("garbage-collector-controller")
        self._queue: WorkQueue[Item] = context.queue()
        self._graph = Ownership(context.informers, context.served)
        for informer in self._graph.informers.values():
            self._listen(informer.ref)
        self._custom = CustomKinds(context.informers, self._follow_kind)

    async def run(self) -> None:
        """Work until cancelled; nothing is deleted before every resource was listed."""
        # Before everything is listed, an owner that is not in its informer yet would look deleted.
        await self._custom.wait_synced()
        for informer in tuple(self._graph.informers.values()):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(run_workers(self._queue, self._reconcile, workers=WORKERS))

    # What is enqueued.

    def _follow_kind(self, ref: ResourceRef[KubeObject]) -> None:
        self._graph.add(ref)
        self._listen(ref)

    def _listen(self, ref: ResourceRef[KubeObject]) -> None:
        self._graph.informers[ref.group, ref.resource].add_handler(
            on_add=lambda obj: self._changed(ref, obj),
            on_update=lambda old, new: self._updated(ref, old, new),
            on_delete=lambda obj: self._deleted(Owned(ref, obj)),
            # An owner that cannot be decoded has not gone: what it owns stays.
            on_undecodable=lambda _: None,
            on_resolved=lambda what, obj: self._gone(what.uid) if obj is None else None,
        )

    def _changed(self, ref: ResourceRef[KubeObject], obj: KubeObject) -> None:
        metadata = obj.metadata
        if metadata.deletion_timestamp is None and not metadata.owner_references:
            return
        owned = Owned(ref, obj)
        if metadata.deletion_timestamp is not None and (
            FOREGROUND in metadata.finalizers or ORPHAN in metadata.finalizers
        ):
            self._queue.add(owned.item)
            return
        for owner in metadata.owner_references:
            # An owner that waits for its dependents lists them itself whenever one of them is deleted.
            if self._graph.state(owned, owner) in (OwnerState.GONE, OwnerState.UNKNOWN):
                self._queue_dependent(owned)
                return

    def _updated(self, ref: ResourceRef[KubeObject], old: KubeObject, new: KubeObject) -> None:
        has_same = same_owners(old, new) or old.metadata.owner_references == new.metadata.owner_references
        # A dependent is queued when an owner is deleted, so unchanged owners need no second check.
        if not has_same or new.metadata.deletion_timestamp is not None:
            self._changed(ref, new)
        if not has_same:
            self._wake_waiting_owners(Owned(ref, old))

    def _deleted(self, owned: Owned) -> None:
        self._gone(owned.obj.metadata.uid)
        self._wake_waiting_owners(owned)

    def _gone(self, uid: str) -> None:
        self._graph.remember_gone(uid)
        for dependent in self._graph.dependents(uid):
            self._queue_dependent(dependent)

    def _queue_dependent(self, owned: Owned) -> None:
        """Queue an object whose owner may be gone."""
        # The end of a pod makes its claim's controller release the claim and remove its finalizer. To delete the claim
        # at that same moment makes conflicts for both, and an object with a finalizer does not go at once anyway.
        self._queue.add_after(owned.item, SETTLING_SECONDS if owned.obj.metadata.finalizers else 0.0)

    def _wake_waiting_owners(self, owned: Owned) -> None:
        for reference in owned.obj.metadata.owner_references:
            owner = self._graph.owner(owned, reference)
            if owner is not None and is_waiting(owner.obj):
                self._queue.add(owner.item)

    # What is done.

    async def _reconcile(self, item: Item) -> None:
        owned = self._graph.get(item)
        if owned is None:
            return
        metadata = owned.obj.metadata
        if metadata.deletion_timestamp is not None:
            if ORPHAN in metadata.finalizers:
                await self._orphan_dependents(owned)
            elif FOREGROUND in metadata.finalizers:
                await self._delete_dependents(owned)
            return
        if not metadata.owner_references:
            return
        try:
            await self._judge(owned)
        except StatusError as error:
            if not error.is_conflict:
                raise
            # The object has changed since it was watched, as a claim that is released while its pod goes. Kubernetes
            # reads every object before it judges it; here that is done only when the informer is behind.
            await self._judge_latest(owned)

    async def _judge_latest(self, owned: Owned) -> None:
        """Read the object and judge it as it is now; another conflict is the queue's."""
        metadata = owned.obj.metadata
        try:
            latest = await self._client.resource(owned.ref, metadata.namespace).get(metadata.name)
        except StatusError as error:
            if error.is_not_found:
                return
            raise
        if latest.metadata.uid == metadata.uid and latest.metadata.deletion_timestamp is None:
            await self._judge(Owned(owned.ref, latest))

    async def _judge(self, owned: Owned) -> None:
        """Delete an object if none of its owners exists any more."""
        metadata = owned.obj.metadata
        states = [(owner, await self._state(owned, owner)) for owner in metadata.owner_references]
        solid = [owner for owner, state in states if state is OwnerState.SOLID]
        waiting = [owner for owner, state in states if state is OwnerState.WAITING]
        if solid:
            # References to deleted owners are removed while others exist, as in Kubernetes: otherwise they would be
            # looked up for ever.
            if len(solid) < len(states):
                await self._set_owners(owned, tuple(solid))
            return
        if waiting and self._has_dependents(owned):
            # Its own dependents go first, so that the waiting owner is the last of the whole tree. If one of them waits
            # itself, this may be a circle, which would never end: then this one holds up no owner any longer.
            if any(is_waiting(dependent.obj) for dependent in self._graph.dependents(metadata.uid)):
                await self._unblock(owned)
            await self._delete(owned, "Foreground")
            return
        await self._delete(owned, self._policy(owned.obj))

    def _has_dependents(self, owned: Owned) -> bool:
        return next(self._graph.dependents(owned.obj.metadata.uid), None) is not None

    def _policy(self, obj: KubeObject) -> str:
        finalizers = obj.metadata.finalizers
        if ORPHAN in finalizers:
            return "Orphan"
        return "Foreground" if FOREGROUND in finalizers else "Background"

    async def _state(self, owned: Owned, owner: OwnerReference) -> OwnerState:
        """Return the state of an owner, read from the API server if necessary."""
        known = self._graph.state(owned, owner)
        if known is not OwnerState.UNKNOWN:
            return known
        try:
            ref = self._graph.resource_of(owner)
        except NotServed as error:
            raise RetryLater(str(error)) from error
        namespace = owned.obj.metadata.namespace
        if ref.namespaced and (not namespace or self._graph.is_elsewhere(owned, owner)):
            shown = f"[{owner.api_version}/{owner.kind}, namespace: {namespace}, name: {owner.name}, uid: {owner.uid}]"
            message = f'ownerRef {shown} does not exist in namespace "{namespace}"'
            self._recorder.record(_about(owned), "Warning", "OwnerRefInvalidNamespace", message)
        if ref.namespaced and not namespace:
            # Such a reference can never be resolved, and nothing is deleted on a guess.
            return OwnerState.SOLID
        try:
            found = await self._client.resource(ref, namespace if ref.namespaced else "").get(owner.name)
        except UndecodableObject as error:
            if error.what.uid in ("", owner.uid):
                return OwnerState.SOLID
        except StatusError as error:
            if not error.is_not_found:
                raise
        else:
            if found.metadata.uid == owner.uid:
                return OwnerState.WAITING if is_waiting(found) else OwnerState.SOLID
        self._graph.remember_gone(owner.uid)
        return OwnerState.GONE

    async def _delete(self, owned: Owned, policy: str) -> None:
        metadata = owned.obj.metadata
        try:
            await self._client.resource(owned.ref, metadata.namespace).delete(
                metadata.name,
                # Preconditions: an object of the same name that was created meanwhile, or got an owner, must not be
                # deleted.
                uid=metadata.uid,
                resource_version=metadata.resource_version,
                propagation_policy=policy,
            )
        except StatusError as error:
            if not error.is_not_found:
                raise

    async def _delete_dependents(self, owned: Owned) -> None:
        """Foreground: the owner stays until no dependent blocks it."""
        metadata = owned.obj.metadata
        self._refuse_while_undecodable(metadata.uid)
        blocked = False
        for dependent in self._graph.dependents(metadata.uid):
            if _blocks(dependent.obj, metadata.uid):
                blocked = True
            if dependent.obj.metadata.deletion_timestamp is None:
                self._queue.add(dependent.item)
        if not blocked:
            await remove_finalizer(self._client.resource(owned.ref, metadata.namespace), owned.obj, FOREGROUND)

    def _refuse_while_undecodable(self, uid: str) -> None:
        """Raise while a dependent may be among what cannot be decoded: it would lose its owner without notice.

        Raises:
            RetryLater: there is such an object.
        """
        for what in self._graph.undecodable():
            if what.uid != uid and what.mentions(uid):
                raise RetryLater(str(what))

    async def _orphan_dependents(self, owned: Owned) -> None:
        metadata = owned.obj.metadata
        self._refuse_while_undecodable(metadata.uid)
        for dependent in tuple(self._graph.dependents(metadata.uid)):
            others = tuple(o for o in dependent.obj.metadata.owner_references if o.uid != metadata.uid)
            await self._set_owners(dependent, others)
        await remove_finalizer(self._client.resource(owned.ref, metadata.namespace), owned.obj, ORPHAN)

    async def _unblock(self, owned: Owned) -> None:
        owners = owned.obj.metadata.owner_references
        free = tuple(replace(o, block_owner_deletion=False) if o.block_owner_deletion else o for o in owners)
        if free != owners:
            await self._set_owners(owned, free)

    async def _set_owners(self, owned: Owned, owners: tuple[OwnerReference, ...]) -> None:
        """Change the owner references; refused if another client changed them meanwhile."""
        metadata = owned.obj.metadata
        path = "/metadata/ownerReferences"
        body: list[JSONObject] = [
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            # The patch applies only to the owners on which the decision was based.
            {"op": "test", "path": path, "value": [to_dict(owner) for owner in metadata.owner_references]},
        ]
        if owners:
            body.append({"op": "replace", "path": path, "value": [to_dict(owner) for owner in owners]})
        else:
            body.append({"op": "remove", "path": path})
        try:
            await self._client.resource(owned.ref, metadata.namespace).patch(metadata.name, PatchType.JSON, body)
        except StatusError as error:
            if not error.is_not_found:
                raise


def _about(owned: Owned) -> ObjectReference:
    """Return the reference for events about the object; a custom resource does not contain its own kind."""
    metadata, ref = owned.obj.metadata, owned.ref
    return ObjectReference(
        kind=ref.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=ref.api_version,
        resource_version=metadata.resource_version,
    )


def _blocks(obj: KubeObject, uid: str) -> bool:
    return any(owner.uid == uid and owner.block_owner_deletion for owner in obj.metadata.owner_references)


# The owner graph: owners and dependents of objects, read from informers.
#
# The only data beside the informers is an index by owner UID in each store, so the graph cannot disagree with what was
# watched. Owners that are known to be deleted are remembered, because UIDs are never used again.

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

# As many as Kubernetes keeps. An entry that was dropped only costs a request to the API server.
_REMEMBERED: Final = 500


class NotServed(LookupError):
    """An owner is of a kind that is not served."""


class Item(NamedTuple):
    """Address of an object."""

    group: str
    resource: str
    namespace: str
    name: str


class OwnerState(Enum):
    """State of an owner according to the informers."""

    SOLID = "solid"
    WAITING = "waiting"
    """It is being deleted in the foreground and waits for its dependents."""
    GONE = "gone"
    UNKNOWN = "unknown"
    """Not in the informers; the API server must be read."""


class Owned(msgspec.Struct, frozen=True):
    """An object, and where it lives."""

    ref: ResourceRef[KubeObject]
    obj: KubeObject

    @property
    def item(self) -> Item:
        """Address of the object."""
        metadata = self.obj.metadata
        return Item(self.ref.group, self.ref.resource, metadata.namespace, metadata.name)


def is_waiting(obj: KubeObject) -> bool:
    """Return True if the object is being deleted in the foreground."""
    metadata = obj.metadata
    return metadata.deletion_timestamp is not None and FOREGROUND in metadata.finalizers


class Ownership:
    """The owner graph of all served resources."""

    def __init__(self, informers: SharedInformers, refs: Iterable[ResourceRef[KubeObject]]) -> None:
        self._shared = informers
        self.informers: dict[tuple[str, str], Informer[Any]] = {}
        self._owners: dict[tuple[str, str], Container[str]] = {}
        """Group and resource → UIDs of the owners of its objects."""
        self._by_kind: dict[tuple[str, str], ResourceRef[KubeObject]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        for ref in refs:
            self.add(ref)

    def add(self, ref: ResourceRef[KubeObject]) -> None:
        """Look after one more resource."""
        informer = self._shared.of(ref)
        informer.store.add_index(BY_OWNER, owner_uids, same_owners)
        self._owners[ref.group, ref.resource] = informer.store.index_values(BY_OWNER)
        self.informers[ref.group, ref.resource] = informer
        self._by_kind[ref.group, ref.kind] = ref

    def get(self, item: Item) -> Owned | None:
        """Return the object at that address, if the informers know it."""
        informer = self.informers[item.group, item.resource]
        obj = informer.store.get(item.namespace, item.name)
        return Owned(informer.ref, obj) if obj is not None else None

    def dependents(self, uid: str) -> Iterator[Owned]:
        """Yield every object that names ``uid`` as an owner."""
        # A list: custom kinds may be added while the caller iterates. Of some fifty resources, one or two have any.
        for resource in [resource for resource, owners in self._owners.items() if uid in owners]:
            informer = self.informers[resource]
            for obj in informer.store.by_index(BY_OWNER, uid):
                yield Owned(informer.ref, obj)

    def undecodable(self) -> Iterator[Undecodable]:
        """Yield every object that exists and cannot be decoded."""
        for informer in tuple(self.informers.values()):
            yield from informer.store.undecodable.values()

    def resource_of(self, owner: OwnerReference) -> ResourceRef[KubeObject]:
        """Return the resource of an owner.

        Raises:
            NotServed: its kind is unknown.
        """
        group = GroupVersionKind.parse(owner.api_version, owner.kind).group
        ref = self._by_kind.get((group, owner.kind))
        if ref is None:
            raise NotServed(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        return ref

    def owner(self, dependent: Owned, reference: OwnerReference) -> Owned | None:
        """Return the owner itself, if the informers know it."""
        try:
            ref = self.resource_of(reference)
        except NotServed:
            return None
        # Owners are in the dependent's namespace or in none: there are no references between namespaces.
        namespace = dependent.obj.metadata.namespace if ref.namespaced else ""
        obj = self.informers[ref.group, ref.resource].store.get(namespace, reference.name)
        return Owned(ref, obj) if obj is not None and obj.metadata.uid == reference.uid else None

    def state(self, dependent: Owned, reference: OwnerReference) -> OwnerState:
        """Return the state of an owner without a request to the API server."""
        # First: a new object of that name would otherwise be taken for the owner by the caller.
        if reference.uid in self._gone:
            return OwnerState.GONE
        owner = self.owner(dependent, reference)
        if owner is None:
            return OwnerState.UNKNOWN
        return OwnerState.WAITING if is_waiting(owner.obj) else OwnerState.SOLID

    def is_elsewhere(self, dependent: Owned, reference: OwnerReference) -> bool:
        """Return True if the object with the owner's UID is in another namespace, where it cannot own ``dependent``."""
        ref = self.resource_of(reference)
        return any(
            obj.metadata.uid == reference.uid and obj.metadata.namespace != dependent.obj.metadata.namespace
            for obj in self.informers[ref.group, ref.resource].store
        )

    def remember_gone(self, uid: str) -> None:
        """Record that no object with that UID exists any more."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
