"""The profiles by their names, as ``cathedra up --driver-profile`` and ``cathedra driver --profile`` take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from cathedra.driver.device import AttributeValue
from cathedra.drivers.example.cpu import CpuProfile
from cathedra.drivers.example.e2e import E2EProfile
from cathedra.drivers.example.gpu import GpuOptions, GpuProfile
from cathedra.drivers.example.mig import mig_pool
from cathedra.drivers.example.net import NetProfile
from cathedra.drivers.example.profile import DriverProfile


class DeviceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of simulated devices; each profile uses some of them."""

    count: int = 8
    """GPUs, cards, NUMA nodes or test devices on each node."""
    partitions: int = 0
    """Equal parts into which each GPU can be cut; 0: it cannot."""
    shared: bool = False
    """True if many claims may have a share of a GPU each."""
    memory: str = "80Gi"
    attributes: Mapping[str, AttributeValue] = msgspec.field(default_factory=dict)
    cpus: int = 4
    """CPUs of each NUMA node."""

    @property
    def gpus(self) -> GpuOptions:
        """Return the properties of GPUs."""
        return GpuOptions(
            count=self.count,
            partitions=self.partitions,
            shared=self.shared,
            memory=self.memory,
            attributes=self.attributes,
        )


PROFILES: Final[Mapping[str, Callable[[DeviceOptions], DriverProfile]]] = {
    "gpu": lambda options: GpuProfile(options.gpus),
    "mig": lambda options: GpuProfile(options.gpus, mig_pool),
    "net": lambda options: NetProfile(options.count),
    "cpu": lambda options: CpuProfile(options.count, options.cpus),
    "test": lambda options: E2EProfile(options.count),
}
"""Name → function that makes the profile."""


def make_profile(name: str, options: DeviceOptions) -> DriverProfile:
    """Return the profile of that name.

    Raises:
        KeyError: there is none.
    """
    return PROFILES[name](options)
