"""The quality of service class of a pod."""

from __future__ import annotations

from typing import Final

from cathedra.api.core import core_v1
from cathedra.api.struct import Quantity
from cathedra.kinds.identity import by_identity

__all__ = ["qos_class"]

_ZERO: Final = Quantity("0")


def qos_class(spec: core_v1.PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    if spec.resources is not None:
        return _class_of(spec.resources)
    return _class_of(*[container.resources for container in (*spec.containers, *spec.init_containers)])


@by_identity
def _class_of(*sources: core_v1.ResourceRequirements) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
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
