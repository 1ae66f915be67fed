"""Amounts as the scheduler adds them up: whole numbers, milli-units for cpu, units for everything else.

The sums themselves are those of `cathedra.semantics.podresources` (docs/spec/scheduling.md §13 and §17).
"""

from __future__ import annotations

from collections.abc import Mapping

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.semantics.podresources import pod_held_nanos

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "IMPLICIT_PREFIX",
    "MEMORY",
    "PODS",
    "Amounts",
    "amounts",
    "fixed_resource",
    "is_extended_resource",
    "pod_requests",
]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""What the extended resource that every device class provides is called, before the name of the class."""

Amounts = dict[str, int]
"""Resource name → milli-units for cpu, units for everything else."""

_MILLI_NANOS = 10**6
_UNIT_NANOS = 10**9


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """Quantities in the scheduler's whole numbers, fractions rounded up."""
    return _whole({name: quantity.nanos for name, quantity in quantities.items()})


def pod_requests(pod: Pod, defaults: Mapping[str, Quantity] | None = None) -> Amounts:
    """What ``pod`` holds of its node in all; ``defaults`` fill in for containers that do not say."""
    return _whole(pod_held_nanos(pod, pod.status.node_allocatable_resource_claim_statuses, defaults))


def is_extended_resource(name: str) -> bool:
    """Whether ``name`` is a resource outside kubernetes.io that is counted in whole numbers."""
    if "/" not in name or name.startswith("requests."):
        return False
    domain = name.split("/", 1)[0]
    return (domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")) or _implicit_class(name)


def fixed_resource(name: str) -> bool:
    """Whether the scheduler counts ``name`` even though it is no extended resource."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


def _implicit_class(name: str) -> bool:
    return name.startswith(IMPLICIT_PREFIX)


def _whole(nanos: Mapping[str, int]) -> Amounts:
    return {name: -(-amount // (_MILLI_NANOS if name == CPU else _UNIT_NANOS)) for name, amount in nanos.items()}
