"""The order in which a workload controller gives up pods that it has too many of.

Spec: docs/spec/controllers.md §8. Source: ``pkg/controller/controller_utils.go`` (ActivePodsWithRanks, ActivePods).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import Time
from cathedra.semantics.pods import is_ready, is_sidecar, ready_since

__all__ = ["DELETION_COST", "least_done_first", "surplus_first"]

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def surplus_first(pods: Iterable[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Active pods in the order in which replica sets give them up.

    Unscheduled before scheduled, Pending before Running, not ready before ready, cheap before dear, pods that share
    their node with many of the active ``related`` ones before lonely ones, young before old. Pods of about the same
    age (within a factor of two) are taken by their UIDs, so that not all the young ones go.
    """
    crowd: dict[str, int] = {}
    for pod in related:
        crowd[pod.spec.node_name] = crowd.get(pod.spec.node_name, 0) + 1

    def compare(one: Pod, other: Pod) -> int:
        ours = (*_progress(one), _deletion_cost(one), -crowd.get(one.spec.node_name, 0))
        theirs = (*_progress(other), _deletion_cost(other), -crowd.get(other.spec.node_name, 0))
        if ours != theirs:
            return -1 if ours < theirs else 1
        for moments in ((ready_since(one), ready_since(other)), (_created(one), _created(other))):
            age = _by_age(*moments, now)
            if age is not None:
                return age or (-1 if one.metadata.uid < other.metadata.uid else 1)
            if _restarts(one) != _restarts(other):
                return -1 if _restarts(one) > _restarts(other) else 1
        return 0

    return sorted(pods, key=cmp_to_key(compare))


def least_done_first(pods: Iterable[Pod]) -> list[Pod]:
    """Active pods in the order in which jobs give them up: those that have come least far, then the youngest."""

    def rank(pod: Pod) -> tuple[tuple[bool, int, bool], float, tuple[int, int], float]:
        regular, sidecars = _restarts(pod)
        return _progress(pod), -(ready_since(pod) or math.inf), (-regular, -sidecars), -_created(pod)

    return sorted(pods, key=rank)


def _progress(pod: Pod) -> tuple[bool, int, bool]:
    phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0)
    return bool(pod.spec.node_name), phase, is_ready(pod)


def _created(pod: Pod) -> float:
    return (pod.metadata.creation_timestamp or Time(0)).timestamp


def _by_age(one: float | None, other: float | None, now: float) -> int | None:
    """-1 if the first moment is younger, 1 if it is older, 0 if they are about the same; None if they are equal."""
    if one is None or other is None or one == other:
        return None
    if not one or not other:
        return -1 if not one else 1
    buckets = [math.trunc(math.log2((now - moment) * 1e9)) if now > moment else -1 for moment in (one, other)]
    return (buckets[0] > buckets[1]) - (buckets[0] < buckets[1])


def _restarts(pod: Pod) -> tuple[int, int]:
    """The most restarts of a container, and of a sidecar."""
    sidecars = {container.name for container in pod.spec.init_containers if is_sidecar(container)}
    regular = max((status.restart_count for status in pod.status.container_statuses), default=0)
    return regular, max(
        (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars), default=0
    )


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0
