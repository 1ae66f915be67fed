"""DeviceScoring: nodes are scored by their devices in use. A plugin of Cathedra, off by default.

Kubernetes scores processor and memory, and a pod with a claim may go to the node that alone had all devices free. With
BestFit it goes where the fewest devices stay free, so that large requests fit later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cathedra.scheduler.framework.plugin import MAX_SCORE, CycleState, ScorePlugin
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo

Room = Callable[[NodeInfo], tuple[int, int]]
"""Returns the number of devices of a node, and of those in use."""


class DeviceScoring(ScorePlugin):
    """Scores nodes for pods with claims."""

    name = "DeviceScoring"

    def __init__(self, room: Callable[[], Room], strategy: str = "BestFit") -> None:
        """``room`` returns a function for the moment at which it is called."""
        self._room = room
        self._score = _STRATEGIES[strategy]

    def scores_zero(self, pod: PodInfo) -> bool:
        """Return True for pods that have no claims: those for extended resources are scored by NodeResourcesFit."""
        return not pod.pod.spec.resource_claims

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Return the score of each node by the strategy; the same for all nodes if none has devices."""
        if not pod.pod.spec.resource_claims:
            return None
        room = self._room()
        return self._score([room(node) for node in nodes])


def _best_fit(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    most = max((total - used for total, used in rooms), default=0)
    return [MAX_SCORE - MAX_SCORE * (total - used) // most if most else 0 for total, used in rooms]


def _most_allocated(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    return [MAX_SCORE * used // total if total else 0 for total, used in rooms]


def _least_allocated(rooms: Sequence[tuple[int, int]]) -> Sequence[int]:
    return [MAX_SCORE * (total - used) // total if total else 0 for total, used in rooms]


_STRATEGIES: Final[Mapping[str, Callable[[Sequence[tuple[int, int]]], Sequence[int]]]] = {
    "BestFit": _best_fit,
    "MostAllocated": _most_allocated,
    "LeastAllocated": _least_allocated,
}
