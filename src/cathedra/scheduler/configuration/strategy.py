"""Scoring strategies of NodeResourcesFit: least allocated, most allocated, or a function of the utilization.

Numbers are kube-scheduler's, whole numbers included (docs/spec/scheduling.md §17). CPU and memory are counted with the
amounts that small containers are assumed to need; other resources count for pods that request them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from cathedra.scheduler.configuration.document import ScoringStrategy
from cathedra.scheduler.framework.plugin import MAX_SCORE, DeviceUsage, no_devices
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import CPU, MEMORY, PodInfo

Rate = Callable[[int, int], int]
"""(requested, capacity) → 0 to 100."""
_SCALE: Final = MAX_SCORE // 10
"""Scores in the file go to 10."""


def _least(requested: int, capacity: int) -> int:
    return (capacity - requested) * MAX_SCORE // capacity if requested <= capacity else 0


def _most(requested: int, capacity: int) -> int:
    return min(requested, capacity) * MAX_SCORE // capacity


class WeightedScoring(msgspec.Struct, frozen=True):
    """The weighted mean of the resources that the node has."""

    rate: Rate
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))

    def score(self, pod: PodInfo, node: NodeInfo, devices: DeviceUsage = no_devices) -> int:
        """0 to 100; ``devices`` provide what the node itself does not have."""
        total = weights = 0
        for name, weight in self.resources:
            capacity, requested = _figures(name, pod, node, devices)
            if capacity:
                total += self.rate(requested, capacity) * weight
                weights += weight
        return total // weights if weights else 0


class LineScoring(msgspec.Struct, frozen=True):
    """RequestedToCapacityRatio: the rounded mean of the resources whose score is above zero."""

    shape: tuple[tuple[int, int], ...]
    """(utilization in percent, score up to 100), by utilization."""
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))

    def score(self, pod: PodInfo, node: NodeInfo, devices: DeviceUsage = no_devices) -> int:
        """0 to 100; ``devices`` provide what the node itself does not have."""
        total = weights = 0
        for name, weight in self.resources:
            capacity, requested = _figures(name, pod, node, devices)
            if not capacity:
                continue
            rated = self._at(100 if requested > capacity else requested * 100 // capacity)
            if rated > 0:
                total += rated * weight
                weights += weight
        return (2 * total + weights) // (2 * weights) if weights else 0

    def _at(self, utilization: int) -> int:
        before: tuple[int, int] | None = None
        for at, score in self.shape:
            if utilization <= at:
                if before is None:
                    return score
                rise = (score - before[1]) * (utilization - before[0])
                # Go's division drops what is behind the point, also below zero.
                return before[1] + int(rise / (at - before[0]))
            before = (at, score)
        return self.shape[-1][1]


FitScoring = WeightedScoring | LineScoring
LEAST_ALLOCATED: Final = WeightedScoring(_least)


def fit_scoring(strategy: ScoringStrategy | None) -> FitScoring:
    """Return the scoring that a validated file configures."""
    if strategy is None:
        return LEAST_ALLOCATED
    resources = tuple((one.name, one.weight) for one in strategy.resources or ()) or ((CPU, 1), (MEMORY, 1))
    if strategy.type == "LeastAllocated":
        return WeightedScoring(_least, resources)
    if strategy.type == "MostAllocated":
        return WeightedScoring(_most, resources)
    ratio = strategy.requested_to_capacity_ratio
    shape = (ratio.shape if ratio is not None else None) or ()
    return LineScoring(tuple((point.utilization, point.score * _SCALE) for point in shape), resources)


def _figures(name: str, pod: PodInfo, node: NodeInfo, devices: DeviceUsage) -> tuple[int, int]:
    """Return the capacity, and the amount requested including the pod; both 0 for a resource that the pod does not
    request.

    A resource that the node itself does not have is provided by devices.
    """
    cpu, memory = pod.scoring_requests
    if name == CPU:
        return node.allocatable.get(CPU, 0), node.scoring_cpu + cpu
    if name == MEMORY:
        return node.allocatable.get(MEMORY, 0), node.scoring_memory + memory
    wanted = pod.requests.get(name, 0)
    if not wanted:
        return 0, 0
    capacity, requested = node.allocatable.get(name, 0), node.requested.get(name, 0)
    if not capacity and "/" in name:
        capacity, requested = devices(name, node)
    return capacity, requested + wanted
