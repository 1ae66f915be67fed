"""When a pod has to leave its devices (docs/spec/controllers.md §3.1)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cathedra.api.resource import DeviceTaint, DeviceToleration, ResourceClaim
from cathedra.controllers.devicetaints.taints import DeviceTaints, Tainted, results_of
from cathedra.semantics.tolerations import tolerates_device_taint

__all__ = ["EvictionTime", "claim_eviction_time", "earliest"]


class EvictionTime(msgspec.Struct, frozen=True):
    """A pod or a claim's pods have to go: from when on (epoch seconds), and because of which taints."""

    due: float
    reasons: tuple[Tainted, ...]


def due_time(taint: DeviceTaint, tolerations: Iterable[DeviceToleration], *, every_effect: bool = True) -> float | None:
    """When users of a device with that taint have to go (epoch seconds); None if they may stay.

    ``every_effect``: a toleration that names no effect counts too, as the API says; up to 1.36 it lets a pod come, but
    not stay.
    """
    added = taint.time_added.timestamp if taint.time_added is not None else 0.0
    counting = [toleration for toleration in tolerations if every_effect or toleration.effect]
    matching = [toleration for toleration in counting if tolerates_device_taint(toleration, taint)]
    if not matching:
        return added
    limits = [toleration.toleration_seconds for toleration in matching]
    if any(limit is None for limit in limits):
        return None
    return added + min(max(limit, 0) for limit in limits if limit is not None)


def claim_eviction_time(
    claim: ResourceClaim, taints: DeviceTaints, *, every_effect: bool = True
) -> EvictionTime | None:
    """Whether and when the users of a claim have to go.

    The tolerations that count are those recorded in the allocation, not those of the claim's spec.
    """
    due: float | None = None
    reasons: dict[Tainted, None] = {}
    for result in results_of(claim):
        for tainted in taints.of(result.driver, result.pool, result.device):
            time = due_time(tainted.taint, result.tolerations, every_effect=every_effect)
            if time is None:
                continue
            reasons[tainted] = None
            due = time if due is None else min(due, time)
    return EvictionTime(due, tuple(reasons)) if due is not None else None


def earliest(times: Iterable[EvictionTime]) -> EvictionTime | None:
    """The times of several claims as one."""
    times = tuple(times)
    if not times:
        return None
    reasons = dict.fromkeys(reason for eviction in times for reason in eviction.reasons)
    return EvictionTime(min(eviction.due for eviction in times), tuple(reasons))
