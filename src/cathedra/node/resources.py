"""Resources of pods and containers on the node, including those of claims (docs/spec/node.md §13): facts of the node,
requests and limits of a container and of a whole pod, and the cgroups that enforce them.

Devices may represent CPU, memory or huge pages of the node. The scheduler writes the amounts into the pod's status, and
only those are read here. Amounts are in nano-units throughout, so nothing is rounded.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Container, NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.quantity import Format, Quantity
from cathedra.node.runtime.runtime import ResourceLimits
from cathedra.releases import FeatureGates
from cathedra.semantics.podresources import (
    HUGE_PAGES,
    add_amounts,
    claims_share_of_container,
    claims_share_of_pod,
    container_totals,
    nanos,
    pod_request_nanos,
)

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
    """Return the container's memory request in nano-bytes, with its part of what its claims add.

    The amount of a claim is divided among all containers that refer to it.
    """
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


class NodeFacts(msgspec.Struct, frozen=True):
    """The node's address, and what pods may have of it."""

    address: str
    allocatable: Mapping[str, Quantity]
    gates: FeatureGates
    capacity: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    """Total capacity of the node; {}: equal to ``allocatable``."""
    pod_address: str = ""
    """The pod's own address; "" for one in the node's network."""

    @property
    def memory(self) -> int:
        """Bytes of memory that the machine has."""
        found = (self.capacity or self.allocatable).get("memory")
        return found.value() if found is not None else 0


# Requests of a whole pod, and the limits of its cgroup.

MIN_SHARES: Final = 2
"""The kernel's smallest CPU share, for pods that request no CPU."""
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


# The cgroups of a node's pods, in the kernel's unified hierarchy (cgroup v2).
#
# As below a kubelet with the driver cgroupfs: ``kubepods`` has what pods may have of the node, in it ``burstable`` and
# ``besteffort`` one cgroup per quality class, and Guaranteed pods beside them. A pod's cgroup ``podUID`` holds all its
# containers to what the pod as a whole may use (docs/spec/node.md §13 and §17.2).
#
# Files are written below a directory that is handed in, so that any directory can stand for the kernel's.

MOUNT: Final = Path("/sys/fs/cgroup")
"""Mount point of the hierarchy."""
_CONTROLLERS: Final = ("cpu", "cpuset", "memory", "hugetlb", "pids", "io")
_PERIOD: Final = 100_000
"""Microseconds over which a CPU limit is counted."""
_LEAST_QUOTA: Final = 1_000
_CLASSES: Final = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}
_LOG = logging.getLogger(__name__)


def is_usable(mount: Path) -> bool:
    """Return True if ``mount`` is a unified hierarchy in which this process may make cgroups."""
    return (mount / "cgroup.controllers").is_file() and os.access(mount / "cgroup.procs", os.W_OK)


def cpu_weight(shares: int) -> int:
    """Return CPU shares (2 to 262144) as a weight (1 to 10000)."""
    return 1 + (min(max(shares, MIN_SHARES), 262_144) - 2) * 9_999 // 262_142


class PodCgroups:
    """The cgroups of one node's pods: below ``below`` (as ``/cathedra-1``) of the hierarchy at ``mount``."""

    def __init__(self, mount: Path, below: str, allocatable: Mapping[str, Quantity], gates: FeatureGates) -> None:
        self._mount = mount
        self._top = f"{below.rstrip('/')}/kubepods"
        self._allocatable = allocatable
        self._gates = gates
        self._shares: dict[str, int] = {}
        """Pod UID → shares, of pods of the class Burstable."""

    def open(self) -> None:
        """Make what all pods are below.

        Raises:
            OSError: the hierarchy cannot be written.
        """
        for directory in _above(self._mount, self._top):
            self._make(directory)
        top = self._mount / self._top.lstrip("/")
        cpu, memory = self._allocatable.get("cpu"), self._allocatable.get("memory")
        limits = ResourceLimits(
            cpu_shares=shares_of(cpu.nanos) if cpu is not None else None,
            memory=memory.value() if memory is not None else None,
        )
        self._limit(top, limits)
        for name in ("burstable", "besteffort"):
            self._make(top / name)
            self._write(top / name, "cpu.weight", str(cpu_weight(MIN_SHARES)))

    def path_of(self, pod: Pod) -> str:
        """Return the path of the pod's cgroup, in the form that OCI runtimes take."""
        parts = (self._top, _CLASSES.get(pod.status.qos_class, "besteffort"), f"pod{pod.metadata.uid}")
        return "/".join(part for part in parts if part)

    def apply(self, pod: Pod) -> None:
        """Make the pod's cgroup, or change it, to what the pod may use now.

        Raises:
            OSError: the kernel refuses a limit, as one below what is in use.
        """
        directory = self._mount / self.path_of(pod).lstrip("/")
        self._make(directory)
        limits = pod_limits(pod, self._gates)
        if pod.status.qos_class == "Burstable":
            self._shares[pod.metadata.uid] = limits.cpu_shares or MIN_SHARES
            self._weigh_burstable()
        self._limit(directory, limits)

    def remove(self, pod: Pod) -> None:
        """Remove the pod's cgroup. No process of the pod may run."""
        directory = self._mount / self.path_of(pod).lstrip("/")
        for place in (*sorted(directory.glob("*/"), reverse=True), directory):
            with contextlib.suppress(OSError):
                place.rmdir()
        if self._shares.pop(pod.metadata.uid, None) is not None:
            with contextlib.suppress(OSError):
                self._weigh_burstable()

    def _weigh_burstable(self) -> None:
        """Set the CPU weight of all Burstable pods together to the sum of their requests."""
        weight = cpu_weight(sum(self._shares.values()))
        self._write(self._mount / self._top.lstrip("/") / "burstable", "cpu.weight", str(weight))

    def _make(self, directory: Path) -> None:
        directory.mkdir(mode=0o755, exist_ok=True)
        _delegate(directory.parent)

    def _limit(self, directory: Path, limits: ResourceLimits) -> None:
        if limits.cpu_shares is not None:
            self._write(directory, "cpu.weight", str(cpu_weight(limits.cpu_shares)))
        self._write(directory, "cpu.max", _cpu_max(limits.cpu_milli))
        self._write(directory, "memory.max", "max" if limits.memory is None else str(limits.memory))
        for size, amount in limits.huge_pages.items():
            self._write(directory, f"hugetlb.{size}.max", str(amount))

    def _write(self, directory: Path, name: str, value: str) -> None:
        try:
            (directory / name).write_text(value)
        except (FileNotFoundError, PermissionError):
            if (directory / name).exists():
                raise
            # The kernel has no such controller, and so nothing that it could hold the pod to.
            _LOG.warning("%s has no %s; %s is not enforced", directory, name, value)


def _above(mount: Path, path: str) -> list[Path]:
    """Return the directories of a cgroup and of those above it, topmost first."""
    directory = mount / path.lstrip("/")
    return [*(parent for parent in reversed(directory.parents) if mount in parent.parents), directory]


def _cpu_max(milli: int | None) -> str:
    quota = "max" if milli is None else str(max(_LEAST_QUOTA, milli * _PERIOD // 1000))
    return f"{quota} {_PERIOD}"


def _delegate(parent: Path) -> None:
    """Let children of a cgroup be limited by every controller that it has itself."""
    with contextlib.suppress(OSError):  # a parent with processes of its own may not; then its children are not limited
        had = (parent / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{name}" for name in _CONTROLLERS if name in had)
        (parent / "cgroup.subtree_control").write_text(wanted)
