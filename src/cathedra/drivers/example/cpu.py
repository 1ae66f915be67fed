"""Simulated NUMA nodes whose CPUs are part of the node's allocatable CPUs.

A claim takes CPUs of one NUMA node, and the scheduler adds them to the CPU requests of pods (KEP-5517). The capacity's
name contains the driver's name, as in the manifests of the reference driver (docs/spec/driver-sdk.md §17.2).
"""

from __future__ import annotations

from collections.abc import Mapping

from cathedra.api.quantity import Quantity
from cathedra.api.resource import NodeAllocatableMapping, NodeAllocatableResource
from cathedra.driver import Device, DeviceStatus, Pool
from cathedra.driver.claim import ConfigModels
from cathedra.drivers.example.profile import PrepareContext, Site


class CpuProfile:
    """N NUMA nodes with as many CPUs each; no parameters are allowed."""

    family: str = "cpu"
    configs: ConfigModels = {}
    spells_own_domain: bool = True

    def __init__(self, numa_nodes: int = 8, cpus: int = 4) -> None:
        self.numa_nodes = numa_nodes
        self.cpus = cpus

    def pool(self, site: Site) -> Pool:
        """Return the NUMA nodes ``numa-0``, ``numa-1``, …"""
        key = f"{site.driver}/cpu"
        counted = NodeAllocatableResource(
            mapping=NodeAllocatableMapping(capacity_key=key, capacity_multiplier=Quantity("1"))
        )
        return Pool(
            devices=tuple(
                Device(
                    f"numa-{index}",
                    attributes={"numaNodeID": index},
                    capacity={key: Quantity(self.cpus)},
                    multiple_allocations=True,
                    node_resources={"cpu": counted},
                )
                for index in range(self.numa_nodes)
            )
        )

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        """Return the NUMA node, and how many of its CPUs were taken.

        Raises:
            ValueError: the claim has parameters.
        """
        allocation = context.allocation
        if allocation.parameters:
            raise ValueError("configuration not allowed")
        prefix = f"CPU_DEVICE_{allocation.device.removeprefix('numa-')}"
        variables = {prefix: allocation.device}
        taken = allocation.consumed.get(f"{context.site.driver}/cpu")
        return variables if taken is None else {**variables, f"{prefix}_CONSUMED_CPU": str(taken)}

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        """Return None: the scheduler reports in the pod's status what was taken."""
        return None
