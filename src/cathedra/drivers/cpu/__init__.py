"""A driver for the CPUs of the machine: a claim gets CPUs of its own, near each other and near its other devices.

`topology` reads what sysfs says of CPUs, cores, caches, sockets and NUMA nodes; `config` says in which units they are
offered; `placing` chooses CPUs of a group; `driver` publishes and pins. Names of devices, attributes and capacities are
those of the Kubernetes project's driver (kubernetes-sigs/dra-driver-cpu), so its manifests work.

    cathedra driver --module cathedra.drivers.cpu:CpuDriver --driver-config cpus.yaml --node node-0
"""

from __future__ import annotations

from cathedra.drivers.cpu.driver import CpuDriver

__all__ = ["CpuDriver"]
