"""Whether a pod that runs may have other resources: at once, later, or never (KEP-1287).

What was granted to a pod is held to, whatever its spec asks for since; texts and reasons are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Container, Pod, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.node.resources.pods import pod_requests
from cathedra.releases import FeatureGates

__all__ = ["RESIZED", "Postponement", "asks_for_resize", "granted_pod", "must_restart", "postponement"]

RESIZED: Final = ("cpu", "memory")
"""The resources that can be resized."""
_MILLI: Final = 10**6
_NANO: Final = 10**9


class Postponement(msgspec.Struct, frozen=True):
    """Why a pod does not get what it asks for: ``Infeasible`` (never here) or ``Deferred`` (not now)."""

    reason: str
    message: str


def postponement(
    pod: Pod, allocatable: Mapping[str, Quantity], others: Iterable[Pod], gates: FeatureGates
) -> Postponement | None:
    """Why the node cannot grant ``pod`` what its spec asks for beside ``others``; None if it can."""
    wanted = pod_requests(pod, gates)
    used = [pod_requests(other, gates) for other in others]
    found = [(name, wanted.get(name, 0), allocatable[name].nanos) for name in RESIZED if name in allocatable]
    for name, amount, have in found:
        if amount > have:
            unit = _unit(name)
            text = (
                f"Node didn't have enough capacity: {name}, requested: {-(-amount // unit)}, capacity: {have // unit}"
            )
            return Postponement("Infeasible", text)
    for name, amount, have in found:
        taken = sum(amounts.get(name, 0) for amounts in used)
        if amount + taken > have:
            unit = _unit(name)
            text = (
                f"Node didn't have enough resource: {name}, requested: {-(-amount // unit)}, "
                f"used: {-(-taken // unit)}, capacity: {have // unit}"
            )
            return Postponement("Deferred", text)
    return None


def _unit(resource: str) -> int:
    return _MILLI if resource == "cpu" else _NANO


def granted_pod(pod: Pod, granted: Mapping[str, ResourceRequirements], whole: ResourceRequirements | None) -> Pod:
    """``pod`` with the resources that its containers (by name), and it as a ``whole``, were granted."""

    def of(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(replace(one, resources=granted.get(one.name, one.resources)) for one in containers)

    spec = replace(
        pod.spec,
        init_containers=of(pod.spec.init_containers),
        containers=of(pod.spec.containers),
        resources=whole,
    )
    return replace(pod, spec=spec)


def asks_for_resize(pod: Pod, granted: Pod) -> bool:
    """Whether the pod's spec asks for other resources than were granted."""
    if pod.spec.resources != granted.spec.resources:
        return True
    pairs = (
        *zip(pod.spec.containers, granted.spec.containers, strict=True),
        *zip(pod.spec.init_containers, granted.spec.init_containers, strict=True),
    )
    return any(mine.resources != theirs.resources for mine, theirs in pairs)


def must_restart(container: Container, before: ResourceRequirements) -> bool:
    """Whether the container wants to be restarted when what has changed since ``before`` changes."""
    after = container.resources
    changed = {
        name
        for name in RESIZED
        if after.requests.get(name) != before.requests.get(name) or after.limits.get(name) != before.limits.get(name)
    }
    policies = {policy.resource_name: policy.restart_policy for policy in container.resize_policy}
    return any(policies.get(name) == "RestartContainer" for name in changed)
