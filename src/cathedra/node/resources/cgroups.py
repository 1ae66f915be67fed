"""The cgroups of a node's pods, in the kernel's unified hierarchy (cgroup v2).

As below a kubelet with the driver cgroupfs: ``kubepods`` has what pods may have of the node, in it ``burstable`` and
``besteffort`` one cgroup per quality class, and Guaranteed pods beside them. A pod's cgroup ``podUID`` holds all its
containers to what the pod as a whole may use (docs/spec/node.md §13 and §17.2).

Files are written below a directory that is handed in, so that any directory can stand for the kernel's.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.node.resources.pods import MIN_SHARES, pod_limits, shares_of
from cathedra.node.runtime.runtime import ResourceLimits
from cathedra.releases import FeatureGates

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
    """CPU shares (2 to 262144) as a weight (1 to 10000)."""
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
    """The cgroup and those above it, topmost first."""
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
