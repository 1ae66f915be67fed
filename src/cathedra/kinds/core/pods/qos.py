"""The quality of service class of a pod."""

from __future__ import annotations

from typing import Final

from cathedra.api.core import core_v1
from cathedra.api.struct import Quantity

__all__ = ["qos_class"]

_ZERO: Final = Quantity("0")


def qos_class(spec: core_v1.PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    containers = (*spec.containers, *spec.init_containers)
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    sources = [spec.resources] if spec.resources is not None else [c.resources for c in containers]
    for resources in sources:
        for name in ("cpu", "memory"):
            request, limit = resources.requests.get(name, _ZERO), resources.limits.get(name, _ZERO)
            if request.sign() > 0:
                requests[name] = requests.get(name, _ZERO) + request
            if limit.sign() > 0:
                limits[name] = limits.get(name, _ZERO) + limit
            else:
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"
