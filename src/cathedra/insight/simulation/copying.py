"""A copy of a cluster: a store that begins with the objects of a state, status and all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from msgspec import structs

from cathedra.api.core.core_v1 import Container, Namespace, Pod, PodResourceClaim, PodSpec, PodStatus
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import encode, replace
from cathedra.apiserver.storage.memory import MemoryStorage
from cathedra.apiserver.storage.protocol import Record, StoreContent
from cathedra.client.transport import ListOptions, Page, ResourceRef, Transport
from cathedra.insight.reading.kinds import READ_KINDS
from cathedra.insight.reading.state import ClusterState

__all__ = ["StateStorage", "TransportOfState", "complete"]


T = TypeVar("T", bound=KubeObject)


class StateStorage(MemoryStorage):
    """Begins with the objects of a state, and remembers nothing else."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    async def load(self) -> StoreContent:
        """The objects, each at a revision of its own."""
        records = list(self._records())
        return StoreContent(len(records), records)

    def _records(self) -> Iterator[Record]:
        revision = 0
        for kind in READ_KINDS:
            for one in self._state.all(kind.ref.type):
                revision += 1
                metadata: ObjectMeta = _metadata(one)
                parts = (metadata.namespace, metadata.name) if kind.ref.namespaced else (metadata.name,)
                numbered: Any = replace(one, metadata=replace(metadata, resource_version=str(revision)))
                yield Record(f"/{kind.ref.group}/{kind.plural}/{'/'.join(parts)}", revision, encode(numbered))


class TransportOfState:
    """The way to a server on a `StateStorage`, which cannot hold what cannot be decoded: lists show it beside the rest,
    and so it stays as long as the copy does."""

    def __init__(self, inner: Transport, state: ClusterState) -> None:
        self._inner = inner
        self._undecodable = state.undecodable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def list(self, ref: ResourceRef[T], namespace: str, options: ListOptions) -> Page[T]:
        """A collection."""
        page = await self._inner.list(ref, namespace, options)
        found = [one for one in self._undecodable if one.kind == ref.kind and namespace in ("", one.namespace)]
        return structs.replace(page, undecodable=tuple(found)) if found else page


def complete(state: ClusterState) -> ClusterState:
    """The state with what dumps leave out and controllers would miss.

    Namespaces exist; owners that were not read are forgotten, or the garbage collector would take what they own; and
    where pods were not read, every consumer of a claim is a pod that runs.
    """
    added: list[KubeObject] = []
    if not state.is_known(Pod):
        added += _consumers(state)
    state = state.including(added)
    uids = {_metadata(one).uid for items in state.objects.values() for one in items.values()}
    trimmed = [
        replace(one, metadata=replace(metadata, owner_references=kept))
        for items in state.objects.values()
        for one in items.values()
        if (metadata := _metadata(one)).owner_references
        and len(kept := tuple(owner for owner in metadata.owner_references if owner.uid in uids))
        < len(metadata.owner_references)
    ]
    names = {key[0] for items in state.objects.values() for key in items} - {""}
    namespaces = [
        Namespace(metadata=ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name}))
        for name in sorted(names)
        if state.get(Namespace, name) is None
    ]
    return state.including([*trimmed, *namespaces])


def _metadata(one: KubeObject) -> ObjectMeta:
    metadata: ObjectMeta = getattr(one, "metadata")  # noqa: B009  # every kind has it, and the base does not say so
    return metadata


def _consumers(state: ClusterState) -> Iterator[Pod]:
    homes = {(piece.spec.driver, piece.spec.pool.name): piece.spec.node_name for piece in state.all(ResourceSlice)}
    for claim in state.all(ResourceClaim):
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        node = next((home for one in results if (home := homes.get((one.driver, one.pool)))), "")
        for consumer in claim.status.reserved_for:
            if consumer.resource == "pods" and node:
                yield Pod(
                    metadata=ObjectMeta(name=consumer.name, namespace=claim.metadata.namespace, uid=consumer.uid),
                    spec=PodSpec(
                        node_name=node,
                        containers=(Container(name="unknown"),),
                        resource_claims=(PodResourceClaim(name="claim", resource_claim_name=claim.metadata.name),),
                    ),
                    status=PodStatus(phase="Running"),
                )
