"""How much of the node a pod asks for and its containers get, with what its claims add.

docs/spec/node.md §13. Devices may stand for CPU, memory or huge pages of the node; the scheduler writes how much
into the pod's status, and only that is read here. Amounts are in nano-units throughout, so nothing is rounded.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import Container, NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.gates import FeatureGates
from cathedra.api.quantity import Quantity
from cathedra.node.runtime.runtime import ResourceLimits
from cathedra.node.setup.nodefacts import NodeFacts
from cathedra.semantics.podresources import (
    HUGE_PAGES,
    claims_share_of_container,
    claims_share_of_pod,
    pod_request_nanos,
)

__all__ = ["container_limits", "oom_score", "pod_requests"]

_NANO: Final = 10**9
_PAGE_UNITS: Final = {"Ki": "KB", "Mi": "MB", "Gi": "GB"}
_GUARANTEED_SCORE: Final = -997
_LEAST_SCORE: Final = 2
_MOST_SCORE: Final = 1000


def _claims(pod: Pod, gates: FeatureGates) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    return pod.status.node_allocatable_resource_claim_statuses if gates["DRANodeAllocatableResources"] else ()


def _nanos(quantity: Quantity | None) -> int:
    return quantity.nanos if quantity is not None else 0


def pod_requests(pod: Pod, gates: FeatureGates) -> dict[str, int]:
    """What the pod asks of its node in all, by resource, in nano-units."""
    return pod_request_nanos(pod, _claims(pod, gates))


def container_limits(pod: Pod, container: Container, node: NodeFacts) -> ResourceLimits:
    """The limits that the kernel is to hold the container to.

    Without a limit of its own a container has the pod's, to which claims add nothing; without either it has none. Huge
    pages are different: nothing said means none, so there the claims alone are the limit.
    """
    resources = container.resources
    added = claims_share_of_container(_claims(pod, node.gates), container.name)
    of_pod = pod.spec.resources.limits if pod.spec.resources is not None else {}

    def limit(resource: str) -> int | None:
        own = resources.limits.get(resource)
        if own is not None and own.nanos:
            return own.nanos + added.get(resource, 0)
        inherited = of_pod.get(resource)
        return inherited.nanos if inherited is not None and inherited.nanos else None

    pages = {name for name in (*resources.limits, *added) if name.startswith(HUGE_PAGES)}
    request = resources.requests.get("cpu") or resources.limits.get("cpu")
    cpu, memory = limit("cpu"), limit("memory")
    return ResourceLimits(
        # The kernel's smallest share is 2; a container without a request gets that.
        cpu_shares=max(2, request.nanos * 1024 // _NANO) if request is not None else 2,
        cpu_milli=max(1, cpu // 10**6) if cpu is not None else None,
        memory=memory // _NANO if memory is not None else None,
        huge_pages={
            _page_size(name): (_nanos(resources.limits.get(name)) + added.get(name, 0)) // _NANO
            for name in sorted(pages)
        },
        oom_score_adj=oom_score(pod, container, node),
    )


def _page_size(resource: str) -> str:
    """``hugepages-2Mi`` as container runtimes call it: ``2MB``."""
    size = resource.removeprefix(HUGE_PAGES)
    return size[:-2] + _PAGE_UNITS.get(size[-2:], size[-2:])


def oom_score(pod: Pod, container: Container, node: NodeFacts) -> int:
    """How readily the kernel kills the container when memory runs out: −997 hardly, 1000 first."""
    if pod.status.qos_class == "Guaranteed" or pod.spec.priority_class_name == "system-node-critical":
        return _GUARANTEED_SCORE
    if pod.status.qos_class in {"", "BestEffort"}:
        return _MOST_SCORE
    effective = _nanos(container.resources.requests.get("memory")) + _unassigned_memory(pod)
    for claim in _claims(pod, node.gates):
        if container.name in claim.containers:
            # What a claim adds is divided among all containers that refer to it.
            effective += claims_share_of_pod((claim,)).get("memory", 0) // len(claim.containers)
    score = _MOST_SCORE - 1000 * effective // max(node.memory * _NANO, 1)
    return min(max(score, _LEAST_SCORE), _MOST_SCORE - 1)


def _unassigned_memory(pod: Pod) -> int:
    """A container's part of what the pod as a whole asks for beyond its containers' requests."""
    if pod.spec.resources is None or "memory" not in pod.spec.resources.requests:
        return 0
    whole = pod.spec.resources.requests["memory"].nanos
    said = sum(_nanos(container.resources.requests.get("memory")) for container in pod.spec.containers)
    return max(0, whole - said) // max(len(pod.spec.containers), 1)
