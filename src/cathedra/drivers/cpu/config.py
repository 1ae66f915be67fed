"""In which units CPUs are offered.

cpuDeviceMode: grouped        # or individual: every CPU is a device
groupBy: numanode             # or machine, socket, cache, core
reservedCPUs: 0-1             # never given to claims
publishNodeAllocatableResourceMapping: false
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

    def __post_init__(self) -> None:
        try:
            parse_cpus(self.reserved)
        except ValueError as error:
            raise ValueError(f"reservedCPUs {self.reserved!r} must be a list of CPUs as 0-1,8") from error
