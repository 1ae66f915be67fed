"""What a pod asks of its node: containers, init containers and sidecars, devices, overhead, pod-level resources.

The long-running containers count together, and beside that the most demanding step of initialisation: an init container
with the sidecars started before it. What claims take of the node comes on top, pod-level resources override cpu,
memory and huge pages, and the overhead of the pod's runtime class is added last.

The sums work on any amounts: `Quantity` where the written form matters (quota), whole nano-units where speed does
(scheduler, node). Source: ``k8s.io/component-helpers/resource/helpers.go``; docs/spec/scheduling.md §13 and §17,
docs/spec/node.md §13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

from cathedra.api.core.core_v1 import Container, NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.quantity import Quantity
from cathedra.semantics.pods import is_sidecar

__all__ = [
    "HUGE_PAGES",
    "add_amounts",
    "claims_share_of_container",
    "claims_share_of_pod",
    "container_totals",
    "is_pod_level_resource",
    "nanos",
    "pod_limit_quantities",
    "pod_request_nanos",
    "pod_request_quantities",
]

HUGE_PAGES: Final = "hugepages-"
"""What the names of huge pages begin with."""

ClaimStatuses = Iterable[NodeAllocatableResourceClaimStatus]


class Amount(Protocol):
    """What can be added and compared."""

    def __add__(self: A, other: A, /) -> A: ...

    def __lt__(self: A, other: A, /) -> bool: ...


A = TypeVar("A", bound=Amount)


def nanos(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Quantities in nano-units, in which nothing is rounded."""
    return {name: quantity.nanos for name, quantity in quantities.items()}


def is_pod_level_resource(name: str) -> bool:
    """Whether the resource may be asked for by the pod as a whole (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def container_totals(pod: Pod, of: Callable[[Container], Mapping[str, A]]) -> dict[str, A]:
    """What the containers of ``pod`` need together at most, when each needs what ``of`` says of it.

    Source: aggregateContainerResourcesByFn.
    """
    total: dict[str, A] = {}
    for container in pod.spec.containers:
        add_amounts(total, of(container))
    if not pod.spec.init_containers:
        return total
    sidecars: dict[str, A] = {}
    peak: dict[str, A] = {}
    for container in pod.spec.init_containers:
        needed = of(container)
        if is_sidecar(container):
            add_amounts(total, needed)
            add_amounts(sidecars, needed)
            _raise_to(peak, sidecars)
        else:
            step = dict(needed)
            add_amounts(step, sidecars)
            _raise_to(peak, step)
    _raise_to(total, peak)
    return total


def pod_request_nanos(
    pod: Pod, claims: ClaimStatuses, defaults: Mapping[str, Quantity] | None = None
) -> dict[str, int]:
    """What ``pod`` asks of its node in all, in nano-units (PodRequests).

    ``claims`` say what devices take of the node: the pod's ``status.nodeAllocatableResourceClaimStatuses`` where the
    gate DRANodeAllocatableResources is on, else nothing. ``defaults`` fill in for containers that ask for none of a
    resource, as scoring wants it.
    """
    assumed = nanos(defaults) if defaults else {}

    def requests(container: Container) -> Mapping[str, int]:
        stated = nanos(container.resources.requests)
        return {**assumed, **stated} if assumed else stated

    total = container_totals(pod, requests)
    add_amounts(total, claims_share_of_pod(claims))
    if pod.spec.resources is not None:
        total |= nanos(_pod_level(pod.spec.resources.requests))
    add_amounts(total, nanos(pod.spec.overhead))
    return total


def pod_request_quantities(pod: Pod) -> dict[str, Quantity]:
    """What ``pod`` asks of its node in all, in the form in which it is written, without its claims (PodRequests)."""
    total = container_totals(pod, lambda container: container.resources.requests)
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.requests)
    add_amounts(total, pod.spec.overhead)
    return total


def pod_limit_quantities(pod: Pod) -> dict[str, Quantity]:
    """What ``pod`` may use at most, without its claims; overhead is added to limits that there are (PodLimits)."""
    total = container_totals(pod, lambda container: container.resources.limits)
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.limits)
    limited = {name for name, quantity in total.items() if quantity}
    add_amounts(total, {name: quantity for name, quantity in pod.spec.overhead.items() if name in limited})
    return total


def claims_share_of_pod(claims: ClaimStatuses) -> dict[str, int]:
    """What claims take of the node for the pod as a whole, in nano-units (addDRANodeAllocatableClaimResources).

    An overhead per container counts once for each container that refers to the claim.
    """
    total: dict[str, int] = {}
    for claim in claims:
        _add_claim(total, claim, times=len(claim.containers))
    return total


def claims_share_of_container(claims: ClaimStatuses, container: str) -> dict[str, int]:
    """What claims add to one container, in nano-units (GetContainerDRAAllocations).

    The pod's overhead counts in full in each container, since any of them may be the one that pays it.
    """
    total: dict[str, int] = {}
    for claim in claims:
        if container in claim.containers:
            _add_claim(total, claim, times=1)
    return total


def add_amounts(total: dict[str, A], part: Mapping[str, A]) -> None:
    """Add ``part`` to ``total``, resource by resource."""
    for name, amount in part.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, A], other: Mapping[str, A]) -> None:
    for name, amount in other.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def _pod_level(quantities: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: quantity for name, quantity in quantities.items() if is_pod_level_resource(name)}


def _add_claim(total: dict[str, int], claim: NodeAllocatableResourceClaimStatus, *, times: int) -> None:
    for name, amount in claim.resources.items():  # the form of 1.36
        total[name] = total.get(name, 0) + amount.nanos
    for mapped in claim.mapping:
        if mapped.quantity is not None:
            total[mapped.name] = total.get(mapped.name, 0) + mapped.quantity.nanos
    for extra in claim.overhead:
        per_pod = extra.per_pod.nanos if extra.per_pod is not None else 0
        per_container = extra.per_container.nanos if extra.per_container is not None else 0
        total[extra.name] = total.get(extra.name, 0) + per_pod + per_container * times
