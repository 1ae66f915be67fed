"""What a pod's status means to the controllers that own pods: active, ready, in which order to give up.

The rules are those of all workload controllers (spec: controllers.md, sections 7 and 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.struct import Time, replace
from cathedra.client.objects import controller_of

__all__ = [
    "BY_CONTROLLER",
    "DELETION_COST",
    "available_since",
    "by_controller",
    "condition",
    "is_active",
    "is_available",
    "is_ready",
    "is_terminal",
    "surplus_first",
    "with_condition",
]

BY_CONTROLLER: Final = "controller-uid"
"""Name of the index of pods (and other owned objects) by the uid of their controller."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def by_controller(pod: Pod) -> Iterator[str]:
    """Index function: the uid of the pod's controller."""
    owner = controller_of(pod)
    if owner is not None:
        yield owner.uid


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether the pod has not ended and is not being deleted."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def condition(pod: Pod, kind: str) -> PodCondition | None:
    """The condition of that type."""
    return next((found for found in pod.status.conditions if found.type == kind), None)


def is_ready(pod: Pod) -> bool:
    """Whether condition Ready is True."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def available_since(pod: Pod) -> float | None:
    """When the pod became ready (epoch seconds), None while it is not."""
    ready = condition(pod, "Ready")
    if ready is None or ready.status != "True":
        return None
    return ready.last_transition_time.timestamp if ready.last_transition_time else 0.0


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    """Whether the pod has been ready for so many seconds."""
    since = available_since(pod)
    return since is not None and (min_ready_seconds == 0 or since + min_ready_seconds <= now)


def with_condition(pod: Pod, new: PodCondition) -> Pod:
    """The pod with a condition set; its transition time moves only when its status does."""
    old = condition(pod, new.type)
    if old is not None and old.status == new.status:
        new = replace(new, last_transition_time=old.last_transition_time)
    others = tuple(found for found in pod.status.conditions if found.type != new.type)
    return replace(pod, status=replace(pod.status, conditions=(*others, new)))


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
        ready_since = available_since(pod) or 0.0
        restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
        created = pod.metadata.creation_timestamp or Time(0)
        return (
            bool(pod.spec.node_name),
            phase,
            is_ready(pod),
            _deletion_cost(pod),
            -crowd[pod.spec.node_name],
            -ready_since,
            -restarts,
            -created.timestamp,
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0
