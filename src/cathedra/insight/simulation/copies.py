"""Copies: the number of further pods, pods of a workload, or whole gangs that fit after a simulation.

Copies are created in batches until one of them waits. A copy of a gang counts if all its pods have nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import msgspec

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta, OwnerReference
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, PODGROUPS, PODS
from cathedra.client.store import Store
from cathedra.insight.explanation.question import next_pod
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.gangroom import classes_of, domain_names
from cathedra.insight.simulation.report import Copies, CopyRoom
from cathedra.semantics.owners import controller_reference
from cathedra.semantics.podclaims import pod_group_name


class Gang(msgspec.Struct, frozen=True):
    """A PodGroup and its pods, which are applied together."""

    group: PodGroup
    pods: tuple[Pod, ...]


def with_gangs(counted: Iterable[KubeObject], applied: Iterable[KubeObject]) -> Iterator[KubeObject | Gang]:
    """Yield the objects that are copied, with the gang in the place of its first pod if its group is applied too."""
    groups = {(one.metadata.namespace, one.metadata.name): one for one in applied if isinstance(one, PodGroup)}
    counted = tuple(counted)
    members: dict[tuple[str, str], list[Pod]] = {}
    for one in counted:
        if isinstance(one, Pod) and (key := _group_of(one)) in groups:
            members.setdefault(key, []).append(one)
    for one in counted:
        key = _group_of(one) if isinstance(one, Pod) else ("", "")
        if key not in members:
            yield one
        elif members[key][0] is one:
            yield Gang(groups[key], tuple(members[key]))


def _group_of(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod_group_name(pod)


class CopyCounter:
    """Creates copies on the copy of a cluster."""

    def __init__(
        self,
        client: Client,
        stores: tuple[Store[Pod], Store[ResourceClaim]],
        settle: Callable[[], Awaitable[None]],
        state: ClusterState,
        most: int,
    ) -> None:
        """``settle`` waits until nothing changes any more. ``most``: the number of copies that are tried at most."""
        self._client, self._settle = client, settle
        self._pods, self._claims = stores
        self._state, self._most = state, most

    async def count(self, one: KubeObject | Gang, *, is_last: bool) -> Copies:
        """Count the further copies that fit. Unless it is the last, they are deleted again."""
        where, pods = self._subject(one)
        namespace = await self._client.resource(NAMESPACES).get(pods[0].metadata.namespace)
        # The namespace is the controller of the copies, which have the labels of the workload's pods: a ReplicaSet with
        # that selector would adopt copies without a controller, and delete those above its number of replicas.
        owners = (controller_reference(namespace, block_owner_deletion=None),)
        copies, is_full = await self._made(one, pods, owners)
        nodes = self._nodes()
        fitting = [names for names in copies if all(map(nodes.get, names))]
        used = Counter(nodes[name] for names in fitting for name in names)
        rooms = self._rooms(one, fitting)
        domains = {
            name: sum(room.copies for room in rooms if room.domain == name) for name in {room.domain for room in rooms}
        }
        domains.pop("", None)
        if not is_last:
            await self._delete(pods[0].metadata.namespace, copies)
        return Copies(
            where,
            len(fitting),
            not is_full,
            isinstance(one, Gang),
            dict(sorted(used.items())),
            dict(sorted(domains.items())),
            rooms,
        )

    def _subject(self, one: KubeObject | Gang) -> tuple[str, Sequence[Pod]]:
        """Return the text that names an object, and the pods that one copy of it has."""
        if isinstance(one, Gang):
            return f"gang {one.group.metadata.namespace}/{one.group.metadata.name}", one.pods
        pod = one if isinstance(one, Pod) else next_pod(one, self._state)  # type: ignore[arg-type]  # a workload
        return f"{type(one).__name__.lower()} {pod.metadata.namespace}/{one.metadata.name}", (pod,)

    async def _made(
        self, one: KubeObject | Gang, pods: Sequence[Pod], owners: tuple[OwnerReference, ...]
    ) -> tuple[list[tuple[str, ...]], bool]:
        """Make copies until one finds no place. Return the names of their pods, and True if the cluster is full."""
        copies: list[tuple[str, ...]] = []
        # Batches grow, because each one waits until nothing changes any more.
        size, is_full = 8, False
        while len(copies) < self._most and not is_full:
            for _ in range(min(size, self._most - len(copies))):
                names = await self._copy(one, pods, owners, len(copies))
                if not names:
                    is_full = True
                    break
                copies.append(names)
            size *= 4
            await self._settle()
            is_full |= any(not all(map(self._nodes().get, names)) for names in copies)
        return copies, is_full

    async def _delete(self, namespace: str, copies: Sequence[tuple[str, ...]]) -> None:
        # Waiting pods are deleted first, or they would take the place of the others.
        for name in (name for names in reversed(copies) for name in names):
            await self._client.resource(PODS, namespace).delete(name, grace_period_seconds=0)
        await self._settle()

    async def _copy(
        self, one: KubeObject | Gang, pods: Sequence[Pod], owners: tuple[OwnerReference, ...], number: int
    ) -> tuple[str, ...]:
        """Create a copy, and return the names of its pods; none if the server refuses one of them."""
        group = None
        try:
            if isinstance(one, Gang):
                metadata = one.group.metadata
                group = f"{metadata.name}-copy-{number}"
                made = ObjectMeta(name=group, namespace=metadata.namespace, annotations=metadata.annotations)
                groups = self._client.resource(PODGROUPS, metadata.namespace)
                await groups.create(PodGroup(metadata=made, spec=one.group.spec))
            names: list[str] = []
            for pod in pods:
                spec = replace(pod.spec, node_name="")
                if group is not None and spec.scheduling_group is not None:
                    spec = replace(spec, scheduling_group=replace(spec.scheduling_group, pod_group_name=group))
                name = f"{pod.metadata.name}-copy-{number}"
                metadata = ObjectMeta(
                    name=name, namespace=pod.metadata.namespace, labels=pod.metadata.labels, owner_references=owners
                )
                await self._client.resource(PODS, pod.metadata.namespace).create(Pod(metadata=metadata, spec=spec))
                names.append(name)
        except StatusError:
            return ()
        return tuple(names)

    def _nodes(self) -> dict[str, str]:
        """Return the nodes of all pods by name; copies have names that no other pod has."""
        return {pod.metadata.name: pod.spec.node_name for pod in self._pods.list()}

    def _rooms(self, one: KubeObject | Gang, copies: Iterable[tuple[str, ...]]) -> tuple[CopyRoom, ...]:
        """Return copies by the classes of their devices, and by their topology domain."""
        names_of = domain_names(one.group, self._state.all(Node)) if isinstance(one, Gang) else {}
        pods = {pod.metadata.name: pod for pod in self._pods.list()}
        found: Counter[tuple[tuple[str, ...], str]] = Counter()
        for names in copies:
            classes = {name for pod in names for claim in self._claims_of(pods[pod]) for name in claim}
            node = pods[names[0]].spec.node_name
            found[tuple(sorted(classes)), names_of.get(node, "–") if names_of else ""] += 1
        return tuple([CopyRoom(*key, number) for key, number in sorted(found.items())])

    def _claims_of(self, pod: Pod) -> Iterator[frozenset[str]]:
        """Yield the classes of the devices of each of the pod's claims."""
        made = {one.resource_claim_name for one in pod.status.resource_claim_statuses}
        named = {one.resource_claim_name for one in pod.spec.resource_claims}
        for name in (made | named) - {None}:
            claim = self._claims.get(pod.metadata.namespace, name) if name else None
            if claim is not None and claim.status.allocation is not None:
                yield classes_of(claim, claim.status.allocation)
