"""Taints of nodes: which ones a node's state asks for, and which tolerations cover them.

Spec: docs/spec/controllers.md §9.2 and §9.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.api.core.core_v1 import Node, Taint, Toleration
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.nodes import ready_status
from cathedra.semantics.tolerations import tolerates

__all__ = ["NOT_READY", "UNREACHABLE", "eviction_delay", "no_execute_key", "no_schedule_keys"]

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

_CONDITION_TAINTS: Final = {
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
}
MANAGED_NO_SCHEDULE: Final = frozenset({*_CONDITION_TAINTS.values(), UNSCHEDULABLE})


def no_schedule_keys(node: Node) -> frozenset[str]:
    """The NoSchedule taints that conditions and ``spec.unschedulable`` ask for."""
    keys = {
        key
        for condition in node.status.conditions
        if (key := _CONDITION_TAINTS.get((condition.type, condition.status))) is not None
    }
    if find_condition(node.status.conditions, "Ready") is None:
        keys.add(NOT_READY)
    if node.spec.unschedulable:
        keys.add(UNSCHEDULABLE)
    return frozenset(keys)


def no_execute_key(node: Node) -> str:
    """The NoExecute taint that the node's health asks for, "" for a healthy node."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(ready_status(node), "")


def eviction_delay(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> float | None:
    """For how many seconds a pod may stay under these NoExecute taints; None for ever, 0 not at all.

    Of several tolerations of a taint the first one counts.
    """
    tolerations = tuple(tolerations)
    used: list[Toleration] = []
    for taint in taints:
        match = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if match is None:
            return 0.0
        used.append(match)
    limits = [float(max(0, t.toleration_seconds)) for t in used if t.toleration_seconds is not None]
    return min(limits, default=None)
