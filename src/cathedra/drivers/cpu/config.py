"""In which units CPUs are offered.

cpuDeviceMode: grouped        # or individual: every CPU is a device
groupBy: numanode             # or machine, socket, cache, core
reservedCPUs: 0-1             # never given to claims
publishNodeAllocatableResourceMapping: false
exposePCIeRoots: false        # the gate DRAListTypeAttributes is needed
sharedCgroups: [kubepods]     # containers without claims, below these cgroups, are kept off claimed CPUs
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cathedra.drivers.hooks.cpuset import parse_cpus

__all__ = ["CpuConfig", "Grouping"]

Grouping = Literal["machine", "socket", "numanode", "cache", "core"]


class CpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as a whole; the fields are named as in the Kubernetes project's driver."""

    driver: str = "dra.cpu"
    mode: Literal["grouped", "individual"] = msgspec.field(name="cpuDeviceMode", default="grouped")
    group_by: Grouping = msgspec.field(name="groupBy", default="numanode")
    reserved: str = msgspec.field(name="reservedCPUs", default="")
    node_resources: bool = msgspec.field(name="publishNodeAllocatableResourceMapping", default=False)
    """Whether the scheduler counts claimed CPUs with the node's (gate ``DRANodeAllocatableResources``)."""

    pcie_roots: bool = msgspec.field(name="exposePCIeRoots", default=False)
    """Whether devices say which PCIe roots are near them, for claims that want a GPU or a card beside their CPUs."""
    shared: tuple[str, ...] = msgspec.field(name="sharedCgroups", default=())
    """A field of our own: where containers are that must keep off claimed CPUs; none: they are left alone."""

    def __post_init__(self) -> None:
        try:
            parse_cpus(self.reserved)
        except ValueError as error:
            raise ValueError(f"reservedCPUs {self.reserved!r} must be a list of CPUs as 0-1,8") from error
        for group in self.shared:
            if not group or group.startswith("/") or ".." in group.split("/"):
                raise ValueError(f"sharedCgroups {group!r} must be a cgroup below the root, as kubepods")
