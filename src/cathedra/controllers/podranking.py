"""The order in which a workload controller gives up pods that it has too many of.

Spec: docs/spec/controllers.md §8. Source: ``pkg/controller/controller_utils.go`` (ActivePodsWithRanks).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time
from cathedra.semantics.pods import is_ready, ready_since

__all__ = ["DELETION_COST", "surplus_first"]

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def surplus_first(pods: Iterable[Pod]) -> list[Pod]:
    """Active pods in the order in which they are given up.

    Unscheduled before scheduled, Pending before Running, not ready before ready, cheap before dear, pods that share
    their node with many others of this set before lonely ones, young before old.
    """
    pods = list(pods)
    crowd: dict[str, int] = {}
    for pod in pods:
        crowd[pod.spec.node_name] = crowd.get(pod.spec.node_name, 0) + 1

    def rank(pod: Pod) -> tuple[bool, int, bool, int, int, float, int, float]:
        phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0)
        since = ready_since(pod) or 0.0
        restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
        created = pod.metadata.creation_timestamp or Time(0)
        return (
            bool(pod.spec.node_name),
            phase,
            is_ready(pod),
            _deletion_cost(pod),
            -crowd[pod.spec.node_name],
            -since,
            -restarts,
            -created.timestamp,
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0
