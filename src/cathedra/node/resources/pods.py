"""Requests of a whole pod, and the limits of its cgroup, including those of its claims (docs/spec/node.md §13).

Devices may represent CPU, memory or huge pages of the node. The scheduler writes the amounts into the pod's status, and
only those are read here. Amounts are in nano-units throughout, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cathedra.api.core.core_v1 import Container, NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.quantity import Format, Quantity
from cathedra.node.runtime.runtime import ResourceLimits
from cathedra.releases import FeatureGates
from cathedra.semantics.podresources import (
    HUGE_PAGES,
    add_amounts,
    claims_share_of_pod,
    container_totals,
    nanos,
    pod_request_nanos,
)

MIN_SHARES: Final = 2
"""The kernel's smallest CPU share, for pods that request no CPU."""
_NANO: Final = 10**9
_PAGE_UNITS: Final = {"Ki": "KB", "Mi": "MB", "Gi": "GB"}
_COMPRESSIBLE: Final = ("cpu", "memory")


def taken_by_claims(pod: Pod, gates: FeatureGates) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return the node resources that the pod's claims use; empty without the gate."""
    return pod.status.node_allocatable_resource_claim_statuses if gates["DRANodeAllocatableResources"] else ()


def pod_requests(pod: Pod, gates: FeatureGates) -> dict[str, int]:
    """Return the pod's requests by resource, in nano-units."""
    return pod_request_nanos(pod, taken_by_claims(pod, gates))


def pod_requirements(pod: Pod, gates: FeatureGates) -> tuple[dict[str, int], dict[str, int]]:
    """Return requests and limits of the pod's cgroup, in nano-units; a resource without a limit is not limited.

    CPU and memory are limited only if each container or the pod is. For huge pages no limit means none, so amounts of
    claims are a limit by themselves.
    """
    claims = claims_share_of_pod(taken_by_claims(pod, gates))
    limits = container_totals(pod, lambda container: nanos(container.resources.limits))
    add_amounts(limits, claims)
    own = nanos(pod.spec.resources.limits) if pod.spec.resources is not None else {}
    limits |= own
    add_amounts(limits, {name: amount for name, amount in nanos(pod.spec.overhead).items() if name in limits})
    declared = {
        name: amount
        for name, amount in limits.items()
        if name.startswith(HUGE_PAGES) or (name in _COMPRESSIBLE and (own.get(name) or _all_limited(pod, name)))
    }
    return pod_requests(pod, gates), declared


def _all_limited(pod: Pod, resource: str) -> bool:
    every = (*pod.spec.init_containers, *pod.spec.containers)
    return all(_limited(container, resource) for container in every)


def _limited(container: Container, resource: str) -> bool:
    limit = container.resources.limits.get(resource)
    return limit is not None and limit.nanos > 0


def pod_limits(pod: Pod, gates: FeatureGates) -> ResourceLimits:
    """Return the limits that the kernel enforces on the whole pod. Only huge pages are limited for BestEffort pods."""
    requests, limits = pod_requirements(pod, gates)
    pages = {page_size(name): amount // _NANO for name, amount in sorted(limits.items()) if name.startswith(HUGE_PAGES)}
    if pod.status.qos_class in {"", "BestEffort"}:
        return ResourceLimits(cpu_shares=MIN_SHARES, huge_pages=pages)
    cpu, memory = limits.get("cpu"), limits.get("memory")
    return ResourceLimits(
        cpu_shares=shares_of(requests.get("cpu", 0)),
        cpu_milli=max(1, cpu // 10**6) if cpu is not None else None,
        memory=memory // _NANO if memory is not None else None,
        huge_pages=pages,
    )


def shares_of(cpu_nanos: int) -> int:
    """CPU in the kernel's shares, of which a processor has 1024."""
    return max(MIN_SHARES, cpu_nanos * 1024 // _NANO)


def page_size(resource: str) -> str:
    """``hugepages-2Mi`` as container runtimes call it: ``2MB``."""
    size = resource.removeprefix(HUGE_PAGES)
    return size[:-2] + _PAGE_UNITS.get(size[-2:], size[-2:])


def as_quantities(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    """Return nano-units of CPU and memory as quantities of a status."""
    forms = {"cpu": Format.DECIMAL_SI, "memory": Format.BINARY_SI}
    return {name: Quantity.of_nanos(amount, forms[name]) for name, amount in amounts.items() if name in forms}
