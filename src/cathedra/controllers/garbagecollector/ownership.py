"""The owner graph: owners and dependents of objects, read from informers.

The only data beside the informers is an index by owner UID in each store, so the graph cannot disagree with what was
watched. Owners that are known to be deleted are remembered, because UIDs are never used again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.core.meta_v1 import KubeObject, OwnerReference
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.undecodable import Undecodable
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.transport import ResourceRef
from cathedra.semantics.owners import owner_uids, same_owners

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

_BY_OWNER: Final = "owner-uid"
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
        self._by_kind: dict[tuple[str, str], ResourceRef[KubeObject]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        for ref in refs:
            self.add(ref)

    def add(self, ref: ResourceRef[KubeObject]) -> None:
        """Look after one more resource."""
        informer = self._shared.of(ref)
        informer.store.add_index(_BY_OWNER, owner_uids, same_owners)
        self.informers[ref.group, ref.resource] = informer
        self._by_kind[ref.group, ref.kind] = ref

    def get(self, item: Item) -> Owned | None:
        """The object at that address, if the informers know it."""
        informer = self.informers[item.group, item.resource]
        obj = informer.store.get(item.namespace, item.name)
        return Owned(informer.ref, obj) if obj is not None else None

    def dependents(self, uid: str) -> Iterator[Owned]:
        """Every object that names ``uid`` as an owner."""
        # A copy: custom kinds may be added while the caller iterates.
        for informer in tuple(self.informers.values()):
            for obj in informer.store.by_index(_BY_OWNER, uid):
                yield Owned(informer.ref, obj)

    def undecodable(self) -> Iterator[Undecodable]:
        """Every object that exists and cannot be decoded."""
        for informer in tuple(self.informers.values()):
            yield from informer.store.undecodable.values()

    def resource_of(self, owner: OwnerReference) -> ResourceRef[KubeObject]:
        """The resource of an owner.

        Raises:
            NotServed: its kind is unknown.
        """
        group = GroupVersionKind.parse(owner.api_version, owner.kind).group
        ref = self._by_kind.get((group, owner.kind))
        if ref is None:
            raise NotServed(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        return ref

    def owner(self, dependent: Owned, reference: OwnerReference) -> Owned | None:
        """The owner itself, if the informers know it."""
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
