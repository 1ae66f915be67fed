"""Requests of a pod to its node: containers, init containers and sidecars, devices, overhead, pod-level resources.

The request is the sum of the long-running containers, or the largest step of initialisation if that is more: an init
container with the sidecars started before it. Amounts that claims consume on the node are added, pod-level resources
override cpu, memory and huge pages, and the overhead of the pod's runtime class is added last.

The sums work on any amounts: `Quantity` if the written form matters (quota), integers of nano-units for speed
(scheduler, node). Source: ``k8s.io/component-helpers/resource/helpers.go``; docs/spec/scheduling.md §13 and §17,
docs/spec/node.md §13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

from cathedra.api.core.core_v1 import Container, NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.quantity import Quantity
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.pods import is_sidecar

HUGE_PAGES: Final = "hugepages-"
"""Prefix of the names of huge pages."""

ClaimStatuses = Iterable[NodeAllocatableResourceClaimStatus]


class Amount(Protocol):
    """A value that can be added and compared."""

    def __add__(self: A, other: A, /) -> A: ...

    def __lt__(self: A, other: A, /) -> bool: ...


A = TypeVar("A", bound=Amount)


def nanos(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Return quantities in nano-units, in which nothing is rounded."""
    return {name: quantity.nanos for name, quantity in quantities.items()}


def is_pod_level_resource(name: str) -> bool:
    """Return True if a pod may request the resource as a whole (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def container_totals(pod: Pod, of: Callable[[Container], Mapping[str, A]]) -> dict[str, A]:
    """Return the largest sum of amounts that the containers of ``pod`` need at a time. ``of`` returns the amounts of
    one.

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
        # Of all other resources the peak is at least what the sidecars before need, so they need no look: there may be
        # thousands of containers, each with resources of its own.
        if is_sidecar(container):
            add_amounts(total, needed)
            add_amounts(sidecars, needed)
            # A sidecar keeps running while later init containers run, so from here on each step needs its amounts, too.
            _raise_to(peak, {name: sidecars[name] for name in needed})
        else:
            step = dict(needed)
            add_amounts(step, {name: sidecars[name] for name in needed if name in sidecars})
            _raise_to(peak, step)
    _raise_to(total, peak)
    return total


def pod_request_nanos(
    pod: Pod, claims: ClaimStatuses, defaults: Mapping[str, Quantity] | None = None
) -> dict[str, int]:
    """Return the total request of ``pod``, in nano-units (PodRequests).

    ``claims`` are the amounts that devices consume on the node: the pod's
    ``status.nodeAllocatableResourceClaimStatuses`` where the gate DRANodeAllocatableResources is on, else nothing.
    ``defaults`` are the amounts of containers without a request, for scoring.
    """
    assumed = nanos(defaults) if defaults else {}

    def requests(container: Container) -> Mapping[str, int]:
        stated = nanos(container.resources.requests)
        return {**assumed, **stated} if assumed else stated

    total = container_totals(pod, requests)
    if claims:
        add_amounts(total, claims_share_of_pod(claims))
    if pod.spec.resources is not None:
        # Replaces, does not add: requests of the pod as a whole override those of its containers, and claims, but not
        # overhead.
        total |= nanos(_pod_level(pod.spec.resources.requests))
    if pod.spec.overhead:
        add_amounts(total, nanos(pod.spec.overhead))
    return total


def pod_held_nanos(pod: Pod, claims: ClaimStatuses, defaults: Mapping[str, Quantity] | None = None) -> dict[str, int]:
    """Return the amounts that ``pod`` holds while it is resized in place, in nano-units (PodRequests with
    UseStatusResources).

    That is the largest of the requests, the amounts that the kubelet has granted, and those in effect: resources that
    are being released are not free yet. A resize that the node can never grant does not count. A pod whose status
    reports no resources holds its requests. Source: AggregateContainerRequests, effectivePodLevelResources.
    """
    if not any(reported_resources(pod)):
        return pod_request_nanos(pod, claims, defaults)
    taken, feasible = claims_share_of_pod(claims), not is_resize_infeasible(pod)
    granted, effective = _reported_totals(pod, taken, nanos(defaults or {}), feasible=feasible)
    # The largest of three counts until the resize is complete. If a shrunk request counted at once, the scheduler would
    # give away memory that the container still uses.
    total = dict(granted)
    _raise_to(total, effective)
    if feasible:
        asked = container_totals(pod, lambda container: _filled(container.resources.requests, nanos(defaults or {})))
        add_amounts(asked, taken)
        _raise_to(total, asked)
    total |= _held_at_pod_level(pod, feasible=feasible)
    add_amounts(total, nanos(pod.spec.overhead))
    return total


def reported_resources(pod: Pod) -> tuple[object, ...]:
    """Return the resources in the pod's status that are granted and in effect, and its resize. Equal reports give equal
    values."""
    status = pod.status
    containers = (*status.container_statuses, *status.init_container_statuses)
    reports = tuple(
        [
            (one.name, one.resources, one.allocated_resources)
            for one in containers
            if one.resources is not None or one.allocated_resources
        ]
        if containers
        else ()
    )
    return status.resources, status.allocated_resources, reports, is_resize_infeasible(pod)


def reports_resources(pod: Pod) -> bool:
    """Return True if the pod's status has `reported_resources`, or amounts that its claims take of the node."""
    status = pod.status
    if status.container_statuses or status.init_container_statuses or status.resources is not None:
        return bool(status.node_allocatable_resource_claim_statuses) or any(reported_resources(pod))
    # As above, for a pod without containers yet.
    return bool(
        status.allocated_resources
        or status.node_allocatable_resource_claim_statuses
        or (status.conditions and is_resize_infeasible(pod))
    )


def is_resize_infeasible(pod: Pod) -> bool:
    """Return True if the node can never grant the pod's present requests (IsPodResizeInfeasible)."""
    conditions = pod.status.conditions
    pending = find_condition(conditions, "PodResizePending") if conditions else None
    return pending is not None and pending.reason == "Infeasible"


def pod_request_quantities(pod: Pod) -> dict[str, Quantity]:
    """Return the total request of ``pod`` without its claims, in the written form (PodRequests)."""
    total = container_totals(pod, lambda container: container.resources.requests)
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.requests)
    add_amounts(total, pod.spec.overhead)
    return total


def pod_limit_quantities(pod: Pod) -> dict[str, Quantity]:
    """Return the limits of ``pod`` without its claims. Overhead is added to existing limits (PodLimits)."""
    return _with_overhead_of_limits(pod, container_totals(pod, lambda container: container.resources.limits))


def _with_overhead_of_limits(pod: Pod, total: dict[str, Quantity]) -> dict[str, Quantity]:
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.limits)
    # Overhead does not create a limit. A pod without a limit of memory stays without one.
    limited = {name for name, quantity in total.items() if quantity}
    add_amounts(total, {name: quantity for name, quantity in pod.spec.overhead.items() if name in limited})
    return total


def pod_held_quantities(pod: Pod) -> dict[str, Quantity]:
    """Return the amounts that ``pod`` holds while it is resized in place, without its claims (PodRequests with
    UseStatusResources). Amounts of its spec keep their written form."""
    stated = pod_request_quantities(pod)
    if not any(reported_resources(pod)):
        return stated
    held = pod_held_nanos(pod, ()).items()
    return {
        name: stated[name] if name in stated and stated[name].nanos == amount else Quantity.of_nanos(amount)
        for name, amount in held
    }


def pod_held_limit_quantities(pod: Pod) -> dict[str, Quantity]:
    """Return the limits of ``pod`` while it is resized in place (PodLimits with UseStatusResources): the larger of spec
    and effect. For a resize that the node can never grant, only the limits in effect count."""
    if not any(reported_resources(pod)):
        return pod_limit_quantities(pod)
    feasible = not is_resize_infeasible(pod)
    reports = {one.name: one for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)}

    def limits(container: Container) -> Mapping[str, Quantity]:
        report = reports.get(container.name)
        if report is None or report.resources is None:
            return container.resources.limits
        held = dict(report.resources.limits)
        if feasible:
            _raise_to(held, container.resources.limits)
        return held

    return _with_overhead_of_limits(pod, container_totals(pod, limits))


def claims_share_of_pod(claims: ClaimStatuses) -> dict[str, int]:
    """Return the amounts that claims consume for the pod as a whole, in nano-units
    (addDRANodeAllocatableClaimResources).

    An overhead per container counts once for each container that refers to the claim.
    """
    total: dict[str, int] = {}
    for claim in claims:
        _add_claim(total, claim, times=len(claim.containers))
    return total


def claims_share_of_container(claims: ClaimStatuses, container: str) -> dict[str, int]:
    """Return the amounts that claims add to one container, in nano-units (GetContainerDRAAllocations).

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


def _reported_totals(
    pod: Pod, taken: Mapping[str, int], assumed: Mapping[str, int], *, feasible: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the amounts that the kubelet has granted, and those in effect. The pod's own amounts include its
    claims."""
    status = pod.status
    if status.allocated_resources and status.resources is not None and status.resources.requests:
        return nanos(status.allocated_resources), nanos(status.resources.requests)
    reports = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}

    def granted(container: Container) -> Mapping[str, int]:
        report = reports.get(container.name)
        if report is not None and report.allocated_resources:
            return _filled(report.allocated_resources, assumed)
        return _filled(container.resources.requests if feasible else {}, assumed)

    def effective(container: Container) -> Mapping[str, int]:
        report = reports.get(container.name)
        if report is not None and report.resources is not None and report.resources.requests:
            return _filled(report.resources.requests, assumed)
        return granted(container)

    total = container_totals(pod, granted)
    add_amounts(total, taken)
    return total, container_totals(pod, effective)


def _held_at_pod_level(pod: Pod, *, feasible: bool) -> dict[str, int]:
    if pod.spec.resources is None or not _pod_level(pod.spec.resources.requests):
        return {}
    overhead = nanos(pod.spec.overhead)
    status = pod.status
    effective = status.resources.requests if status.resources is not None else {}
    held = nanos(pod.spec.resources.requests) if feasible or not (effective or status.allocated_resources) else {}
    for reported in (nanos(effective), nanos(status.allocated_resources)):
        _raise_to(held, {name: max(amount - overhead.get(name, 0), 0) for name, amount in reported.items()})
    return {name: amount for name, amount in held.items() if is_pod_level_resource(name)}


def _filled(requests: Mapping[str, Quantity], assumed: Mapping[str, int]) -> dict[str, int]:
    return {**assumed, **nanos(requests)}


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
