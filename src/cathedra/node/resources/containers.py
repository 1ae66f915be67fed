"""Resource limits of each container, including those of its claims (docs/spec/node.md §13).

Devices may represent CPU, memory or huge pages of the node. The scheduler writes the amounts into the pod's status, and
only those are read here. Amounts are in nano-units throughout, so nothing is rounded.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.quantity import Quantity
from cathedra.node.resources.nodefacts import NodeFacts
from cathedra.node.resources.pods import MIN_SHARES, page_size, shares_of, taken_by_claims
from cathedra.node.runtime.runtime import ResourceLimits
from cathedra.semantics.podresources import HUGE_PAGES, claims_share_of_container, claims_share_of_pod

_NANO: Final = 10**9
_GUARANTEED_SCORE: Final = -997
_LEAST_SCORE: Final = 2
_MOST_SCORE: Final = 1000


def _nanos(quantity: Quantity | None) -> int:
    return quantity.nanos if quantity is not None else 0


def container_limits(pod: Pod, container: Container, node: NodeFacts) -> ResourceLimits:
    """Return the limits that the kernel enforces on the container.

    A container without a limit of its own has the pod's, to which claims add nothing; without either it is not limited.
    Huge pages differ: no limit means none, so the amounts of claims are the limit.
    """
    resources = container.resources
    added = claims_share_of_container(taken_by_claims(pod, node.gates), container.name)
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
        cpu_shares=shares_of(request.nanos) if request is not None else MIN_SHARES,
        cpu_milli=max(1, cpu // 10**6) if cpu is not None else None,
        memory=memory // _NANO if memory is not None else None,
        huge_pages={
            page_size(name): (_nanos(resources.limits.get(name)) + added.get(name, 0)) // _NANO
            for name in sorted(pages)
        },
        oom_score_adj=oom_score(pod, container, node),
    )


def oom_score(pod: Pod, container: Container, node: NodeFacts) -> int:
    """Return the OOM score adjustment: −997 (killed last) to 1000 (killed first)."""
    if pod.status.qos_class == "Guaranteed" or pod.spec.priority_class_name == "system-node-critical":
        return _GUARANTEED_SCORE
    if pod.status.qos_class in {"", "BestEffort"}:
        return _MOST_SCORE
    effective = _effective_memory(pod, container, node) + _unassigned_memory(pod, node)
    score = _MOST_SCORE - 1000 * effective // max(node.memory * _NANO, 1)
    return min(max(score, _LEAST_SCORE), _MOST_SCORE - 1)


def _effective_memory(pod: Pod, container: Container, node: NodeFacts) -> int:
    """The container's request, with its part of what its claims add: that is divided among all that refer to it."""
    effective = _nanos(container.resources.requests.get("memory"))
    for claim in taken_by_claims(pod, node.gates):
        if container.name in claim.containers:
            effective += claims_share_of_pod((claim,)).get("memory", 0) // len(claim.containers)
    return effective


def _unassigned_memory(pod: Pod, node: NodeFacts) -> int:
    """Return the container's share of the pod-level memory request that exceeds the containers' requests."""
    if pod.spec.resources is None or "memory" not in pod.spec.resources.requests:
        return 0
    whole = pod.spec.resources.requests["memory"].nanos
    assigned = sum(_effective_memory(pod, container, node) for container in pod.spec.containers)
    return max(0, whole - assigned) // max(len(pod.spec.containers), 1)
