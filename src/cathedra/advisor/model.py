"""The model of a cluster: its objects, kept up to date by watches, and the scheduler's filters over them.

Nothing is computed anew when an object changes: informers hold the objects, the filters follow them with the inventory,
ledger and cache that the scheduler has, and a `ClusterState` for the tools of `cathedra.insight` is a view of the same
objects. A state is valid for one turn: a question is answered without waiting, or in the thread of `ModelTurns`, while
no change is applied.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar, cast

from cathedra.allocation import Budget, Cluster
from cathedra.api.core.apps_v1 import DaemonSet
from cathedra.api.core.batch_v1 import CronJob
from cathedra.api.core.core_v1 import Event, Node, NodeStatus, Pod, PodStatus
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1alpha3 import Workload
from cathedra.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.informer import Informer, InformerObserver, SharedInformers
from cathedra.client.store import Store
from cathedra.client.transport import APICall, Transport, WatchEvent
from cathedra.insight.reading.live import ServerFeatures
from cathedra.insight.reading.state import ClusterState, Note, ReadKind, note_on, read_kind
from cathedra.offload import ComputeThread
from cathedra.remembering import everything_but
from cathedra.scheduler.judging import Filters, requests_of
from cathedra.semantics.podclaims import has_claims

SEARCH_SECONDS: Final = 1.0
"""Longest search of the allocator for one pod. No change is applied meanwhile."""
_UNUSED: Final = frozenset((Event, DaemonSet, CronJob, PriorityClass, Workload))
"""Kinds that explanations of waiting pods do not read, or miss without harm. Events are as many as all else."""

_ESSENTIAL: Final = (Node, Pod, ResourceSlice, DeviceClass, ResourceClaim)


class ClusterModel:
    """The objects of a cluster and the verdict of filters on its pods. It works while ``informers`` run."""

    def __init__(
        self, client: Client, features: ServerFeatures, source: str, observer: InformerObserver | None = None
    ) -> None:
        """``source`` names the server; ``observer`` counts what could not be read."""
        self.turns = ModelTurns()
        client = Client(TurnTransport(client.transport, self.turns), clock=client.clock)
        self._client, self._features, self._source = client, features, source
        self.gates = features.gates
        self.informers = SharedInformers(client, client.clock, observer)
        self.filters = Filters.following(client, self.informers, features.gates, SEARCH_SECONDS)
        followed = [kind.ref for kind in features.kinds if kind.ref.type not in _UNUSED]
        self._informers: dict[type[Any], Informer[Any]] = {ref.type: self.informers.of(ref) for ref in followed}
        self._served = frozenset(self._informers)
        self._nodes: dict[str, Node] = {}
        self.version = 0
        """Grows with every change that may change the verdict on a pod."""
        self.supply_version = 0
        """Grows with every change of nodes, slices, classes and taint rules."""
        self._changed: list[Callable[[], None]] = []
        devices = self.filters.devices
        self.cluster = Cluster(
            features=devices.features,
            budget=Budget(seconds=SEARCH_SECONDS, monotonic=client.clock.monotonic),
            nodes=self._nodes,
            classes=devices.classes,
            inventory=devices.inventory,
            ledger=devices.ledger,
            # Read by name only: the informers' own dictionaries, so that nothing is kept twice.
            claims=cast("dict[tuple[str, str], ResourceClaim]", self.store(ResourceClaim).by_key),
            templates=cast("dict[tuple[str, str], ResourceClaimTemplate]", self.store(ResourceClaimTemplate).by_key),
        )
        self._follow()

    def _follow(self) -> None:
        """Count the changes that matter."""
        self.informer(Node).add_handler(self._node_set, self._node_updated, self._node_gone)
        self.informer(Pod).add_handler(self._note, self._pod_updated, self._note)
        self.informer(ResourceClaim).add_handler(self._note, self._claim_updated, self._note)
        for kind in (ResourceSlice, DeviceClass, DeviceTaintRule):
            self.informer(kind).add_handler(self._supply, lambda _, one: self._supply(one), self._supply)
        for kind in self._informers.keys() - {Node, Pod, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule}:
            self.informer(kind).add_handler(self._note, lambda _, one: self._note(one), self._note)

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call ``on_change`` after each change that may change the verdict on a pod."""
        self._changed.append(on_change)

    def informer(self, kind: type[Any]) -> Informer[Any]:
        """Return the informer of a kind that the server has, or one of no objects."""
        if kind not in self._informers:
            self._informers[kind] = Informer(self._client, read_kind(kind).ref, clock=self._client.clock)
        return self._informers[kind]

    def store(self, kind: type[Any]) -> Store[Any]:
        """Return the objects of a kind; none if the server lacks it."""
        return self.informer(kind).store

    async def wait_synced(self) -> None:
        """Wait until every kind was listed."""
        await self.informers.wait_synced()

    def has_essentials(self) -> bool:
        """Return True if everything has been listed without which every answer would be wrong."""
        return all(self.informer(kind).synced for kind in _ESSENTIAL)

    def state(self) -> ClusterState:
        """Return the state at this moment; it is valid for this turn."""
        unlisted = [kind for kind, one in self._informers.items() if not one.synced and kind in self._served]
        missing = (Note(one.plural, "unlisted", _missing(one)) for one in map(read_kind, unlisted))
        undecodable = tuple(what for one in self._informers.values() for what in one.store.undecodable.values())
        return ClusterState(
            self._source,
            {kind: one.store.by_key for kind, one in self._informers.items()},
            gates=self._features.gates,
            notes=(*self._features.notes, *missing, *map(note_on, undecodable)),
            unknown=frozenset(unlisted),
            now=self._client.clock.now(),
            undecodable=undecodable,
            served=self._features.served,
            followed=self.cluster,
        )

    def snapshot(self) -> ClusterState:
        """Return the state at this moment, as a copy that does not change with the cluster."""
        now = self.state()
        copied = {kind: dict(items) for kind, items in now.objects.items()}
        return dataclasses.replace(now, objects=copied, followed=None)

    def uses_devices(self, pod: Pod) -> bool:
        """Return True if the pod has claims, or requests a resource that a device class stands for."""
        if has_claims(pod):
            return True
        behind = self.filters.devices.class_behind
        return self.gates.get("DRAExtendedResource", False) and any(map(behind, requests_of(pod)))

    # --- changes

    def _note(self, _: KubeObject) -> None:
        self.version += 1
        for on_change in self._changed:
            on_change()

    def _supply(self, one: KubeObject) -> None:
        self.supply_version += 1
        self._note(one)

    def _node_set(self, node: Node) -> None:
        self._nodes[node.metadata.name] = node
        self._supply(node)

    def _node_updated(self, old: Node, new: Node) -> None:
        self._nodes[new.metadata.name] = new
        if _supplied(old) != _supplied(new):
            self._supply(new)

    def _node_gone(self, node: Node) -> None:
        self._nodes.pop(node.metadata.name, None)
        self._supply(node)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if _judged(old) != _judged(new):
            self._note(new)

    def _claim_updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if _held(old) != _held(new):
            self._note(new)


def _missing(kind: ReadKind) -> str:
    text = f"{kind.plural} could not be listed so far"
    return f"{text}: {kind.consequence}" if kind.consequence else text


_WRITTEN: Final = "it records writes"
_REPORT: Final = "a report that no filter reads"
_OF_CONTAINERS: Final = "a report of containers; the spec has what they request"
_IGNORED: Final[Mapping[type[Any], Mapping[str, str]]] = {
    ObjectMeta: {
        "resource_version": _WRITTEN,
        "generation": _WRITTEN,
        "managed_fields": _WRITTEN,
        "annotations": "no filter reads those of nodes and pods; those of claims are compared",
        "finalizers": "they keep an object, and change nothing of it",
        "deletion_timestamp": "that an object is being deleted is compared, not since when",
        "deletion_grace_period_seconds": _REPORT,
    },
    NodeStatus: {
        "phase": _REPORT,
        "conditions": "heartbeats; filters read the taints that follow from them",
        "addresses": _REPORT,
        "daemon_endpoints": _REPORT,
        "node_info": _REPORT,
        "images": "scores alone read them",
        "volumes_in_use": _REPORT,
        "volumes_attached": _REPORT,
        "config": _REPORT,
    },
    PodStatus: {
        "observed_generation": _WRITTEN,
        "phase": "that a pod has ended is compared",
        "conditions": "the scheduler's refusal, and reports of containers",
        "message": _REPORT,
        "reason": _REPORT,
        "host_ip": _REPORT,
        "host_ips": _REPORT,
        "pod_ip": _REPORT,
        "pod_ips": _REPORT,
        "start_time": "it orders victims of a preemption alone",
        "init_container_statuses": _OF_CONTAINERS,
        "container_statuses": _OF_CONTAINERS,
        "ephemeral_container_statuses": _OF_CONTAINERS,
        "qos_class": "it follows from the spec",
        "volume_health": _REPORT,
    },
    ResourceClaimStatus: {"devices": "reports of drivers"},
}
"""Fields that change with no verdict, and why. All others are compared, also those that are added later."""
_metadata, _node_status, _pod_status, _claim_status = (
    everything_but(kind, reasons) for kind, reasons in _IGNORED.items()
)


def _supplied(node: Node) -> tuple[object, ...]:
    """Return what verdicts depend on of a node."""
    return _identity(node), node.spec, _node_status(node.status)


def _judged(pod: Pod) -> tuple[object, ...]:
    """Return what verdicts on a pod, and on others, depend on."""
    return _identity(pod), pod.spec, _pod_status(pod.status), pod.status.phase in ("Succeeded", "Failed")


def _held(claim: ResourceClaim) -> tuple[object, ...]:
    """Return what verdicts depend on of a claim."""
    return _identity(claim), claim.metadata.annotations, claim.spec, _claim_status(claim.status)


def _identity(obj: KubeObject) -> tuple[object, ...]:
    return _metadata(obj.metadata), obj.metadata.deletion_timestamp is not None


# Turns of the model: either changes of the cluster are applied, or a thread computes on it.
#
# Filters, inventory and ledger are updated in place by informers, so nothing may change them while a pod is judged. A
# judgement of a large cluster takes half a second, and one of a gang several. On the event loop that would stop health,
# metrics and answers to users; in the thread only the changes wait.

T = TypeVar("T")


class ModelTurns:
    """The turns of one model. `run` is a turn of the thread, and `changes` waits for one of the informers."""

    def __init__(self) -> None:
        self._thread = ComputeThread()
        self._computing = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, called in the thread while no change is applied."""
        async with self._computing:
            return await self._thread.run(lambda _: work(), seconds=math.inf)

    async def changes(self) -> None:
        """Wait until changes may be applied. They may until the caller waits for something else."""
        # A loop, because the next computation may have begun before this task runs again.
        while self._computing.locked():
            async with self._computing:
                pass

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Keep the thread from computing while the body runs, which is to be short: changes wait, too."""
        async with self._computing:
            yield

    def close(self) -> None:
        """End the thread when it is idle."""
        self._thread.close()


class TurnTransport:
    """A transport whose lists and events arrive when changes may be applied.

    An informer applies what it receives before it waits again, so it never does while the thread computes.
    """

    def __init__(self, inner: Transport, turns: ModelTurns) -> None:
        self._inner, self._turns = inner, turns

    async def call(self, call: APICall) -> Any:
        """Carry out a call."""
        try:
            found = await self._inner.call(call)
        except StatusError:
            # After a refusal too: an informer empties its store if the server has no such resource any more.
            await self._turns.changes()
            raise
        await self._turns.changes()
        return found

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Yield the changes of the watch, each in a turn without a computation."""
        return self._watch(call)

    @asynccontextmanager
    async def _watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        try:
            async with self._inner.watch(call) as events:
                yield self._in_turn(events)
        except StatusError:
            await self._turns.changes()
            raise

    async def _in_turn(self, events: AsyncIterator[WatchEvent[Any]]) -> AsyncIterator[WatchEvent[Any]]:
        async for event in events:
            await self._turns.changes()
            yield event

    async def close(self) -> None:
        """Close the connections of the transport inside."""
        await self._inner.close()
