"""Amounts as the scheduler adds them up: whole numbers, milli-units for cpu, units for everything else.

A pod asks for the larger of what its long-running containers need together and what any init container needs beside
the sidecars started before it, plus what its devices take of the node, plus overhead; pod-level requests override
(spec: scheduling.md, sections 13 and 17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.quantity import Quantity

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "HUGE_PAGES",
    "MEMORY",
    "PODS",
    "Amounts",
    "amounts",
    "claim_amounts",
    "container_amounts",
    "fixed_resource",
    "is_extended_resource",
    "pod_requests",
]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
HUGE_PAGES = "hugepages-"
"""What the names of huge pages begin with."""

Amounts = dict[str, int]
"""Resource name → milli-units for cpu, units for everything else."""

_MILLI_NANOS = 10**6
_UNIT_NANOS = 10**9


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """Quantities in the scheduler's whole numbers, fractions rounded up."""
    return _whole({name: quantity.nanos for name, quantity in quantities.items()})


def pod_requests(pod: Pod, missing: Mapping[str, Quantity] | None = None) -> Amounts:
    """What ``pod`` asks of its node in all; ``missing`` fills in for containers that do not say."""
    defaults = dict(missing) if missing else {}

    def requests(container: Container) -> Mapping[str, Quantity]:
        found = container.resources.requests
        return {**defaults, **found} if defaults else found

    total = container_amounts(pod, requests)
    spec = pod.spec
    if spec.resources is not None:
        for name, quantity in spec.resources.requests.items():
            if name in (CPU, MEMORY) or name.startswith(HUGE_PAGES):
                total[name] = quantity.nanos
    _add(total, {name: quantity.nanos for name, quantity in spec.overhead.items()})
    return _whole(total)


def container_amounts(pod: Pod, of: Callable[[Container], Mapping[str, Quantity]]) -> dict[str, int]:
    """What the containers of ``pod`` need together at most, with what its devices take of the node, in nano-units."""
    total = _sum(_nanos(of(container)) for container in pod.spec.containers)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        needed = _nanos(of(container))
        if container.restart_policy == "Always":
            _add(total, needed)
            _add(sidecars, needed)
            needed = dict(sidecars)
        else:
            needed = _sum((needed, sidecars))
        _maximum(peak, needed)
    _maximum(total, peak)
    if pod.status.node_allocatable_resource_claim_statuses:
        _add(total, claim_amounts(pod))
    return total


def claim_amounts(pod: Pod, container: str = "") -> dict[str, int]:
    """What the devices of ``pod`` take of the node, or of it what counts for one ``container``, in nano-units."""
    total: Amounts = {}
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        if container and container not in claim.containers:
            continue
        times = 1 if container else len(claim.containers)
        _add(total, {one.name: one.quantity.nanos for one in claim.mapping if one.quantity is not None})
        for one in claim.overhead:
            per_pod = one.per_pod.nanos if one.per_pod is not None else 0
            per_container = one.per_container.nanos if one.per_container is not None else 0
            _add(total, {one.name: per_pod + per_container * times})
    return total


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
    return name.startswith("deviceclass.resource.kubernetes.io/")


def _nanos(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: quantity.nanos for name, quantity in quantities.items()}


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        _add(total, part)
    return total


def _add(total: Amounts, part: Mapping[str, int]) -> None:
    for name, amount in part.items():
        total[name] = total.get(name, 0) + amount


def _maximum(total: Amounts, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _whole(nanos: Mapping[str, int]) -> Amounts:
    return {name: -(-amount // (_MILLI_NANOS if name == CPU else _UNIT_NANOS)) for name, amount in nanos.items()}
