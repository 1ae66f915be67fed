"""A driver for the CPUs of a machine: a claim gets CPUs of its own, near each other and near its other devices.

`topology` reads CPUs, cores, caches, sockets and NUMA nodes from sysfs; `driver` publishes CPUs in the units of its
configuration, chooses and pins them, and confines all other containers to the remaining CPUs. Names of
devices, attributes and capacities are those of the Kubernetes project's driver (kubernetes-sigs/dra-driver-cpu), so its
manifests work.

    cathedra driver --module cathedra.drivers.cpu:CpuDriver --driver-config cpus.yaml --node node-0
"""

from __future__ import annotations

from cathedra.drivers.cpu.driver import CpuDriver

__all__ = ["CpuDriver"]
