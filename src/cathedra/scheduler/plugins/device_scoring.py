"""DeviceScoring: nodes are scored by their devices in use. A plugin of Cathedra, off by default.

Kubernetes scores processor and memory, and a pod with a claim may go to the node that alone had all devices free. With
BestFit it goes where the fewest devices stay free, so that large requests fit later. LeastFragmentation leaves nodes
whole that have no device in use, and Spread compares the nodes' domains: the values of an attribute of their devices.
BestFit and LeastFragmentation also choose among partitions and shares on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cathedra.api.resource import DeviceAttribute, ResourceSlice
from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import MAX_SCORE, ClaimPlugin, CycleState, ReservePlugin, ScorePlugin
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.groupdomains import values_by_node

Room = Callable[[NodeInfo], tuple[int, int]]
"""Returns the number of devices of a node, and of those in use."""


class DeviceScoring(ScorePlugin, ReservePlugin):
    """Scores nodes for pods with claims, and chooses devices on the node that wins."""

    name = "DeviceScoring"

    def __init__(
        self, devices: ClaimPlugin, slices: Store[ResourceSlice], strategy: str = "BestFit", attribute: str = ""
    ) -> None:
        """``attribute`` names the domains of Spread."""
        self._devices, self._slices = devices, slices
        self._packs = strategy in _PACKING
        self._score = _STRATEGIES.get(strategy, _best_fit)
        self._attribute = attribute if strategy == SPREAD else ""

    def scores_zero(self, pod: PodInfo) -> bool:
        """Return True for pods that have no claims: those for extended resources are scored by NodeResourcesFit."""
        return not pod.pod.spec.resource_claims

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Return the score of each node by the strategy; the same for all nodes if none has devices."""
        if not pod.pod.spec.resource_claims:
            return None
        room = self._devices.room()
        if self._attribute:
            return self._spread(room, state.snapshot, nodes)
        return self._score([room(node) for node in nodes])

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Choose among the devices of the node, after DynamicResources has taken the first that will do."""
        if self._packs and pod.pod.spec.resource_claims:
            self._devices.pack(state, node)
        return None

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Do nothing: DynamicResources releases what the pod holds."""

    def _spread(self, room: Room, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> Sequence[int]:
        """Return the free share of each node's domains; 0 for nodes whose devices lack the attribute."""
        domains = values_by_node(self._attribute, self._slices.list(), [info.node for info in snapshot.nodes])
        totals: dict[DeviceAttribute, tuple[int, int]] = {}
        for node in snapshot.nodes:
            here = room(node) if node.name in domains else (0, 0)
            for domain in domains.get(node.name, ()):
                total, used = totals.get(domain, (0, 0))
                totals[domain] = total + here[0], used + here[1]
        free = {domain: MAX_SCORE * (total - used) // total if total else 0 for domain, (total, used) in totals.items()}
        return [max((free[domain] for domain in domains.get(node.name, ())), default=0) for node in nodes]


def _best_fit(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    most = max((total - used for total, used in rooms), default=0)
    return [MAX_SCORE - MAX_SCORE * (total - used) // most if most else 0 for total, used in rooms]


def _most_allocated(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    return [MAX_SCORE * used // total if total else 0 for total, used in rooms]


def _least_allocated(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    return [MAX_SCORE * (total - used) // total if total else 0 for total, used in rooms]


def _least_fragmentation(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    half = MAX_SCORE // 2
    return [fit // 2 + (half if used else 0) for (_, used), fit in zip(rooms, _best_fit(rooms), strict=True)]


SPREAD: Final = "Spread"
_PACKING: Final = frozenset({"BestFit", "LeastFragmentation"})
"""Strategies that choose devices of a node too; with the others a node's devices are taken in Kubernetes' order."""
_STRATEGIES: Final[Mapping[str, Callable[[Sequence[tuple[int, int]]], Sequence[int]]]] = {
    "BestFit": _best_fit,
    "MostAllocated": _most_allocated,
    "LeastAllocated": _least_allocated,
    "LeastFragmentation": _least_fragmentation,
}
