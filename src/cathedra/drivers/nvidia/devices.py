"""GPUs and their partitions as devices, named and described as NVIDIA's DRA driver does.

A GPU in MIG mode is offered whole and in every partition in every place, all of which consume the counters of the GPU:
engines, memory, and each slice of memory by its number, which keeps partitions from overlapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.api.quantity import Format, Quantity
from cathedra.api.resource import DeviceTaint
from cathedra.driver import Device, Pool, Version
from cathedra.driver.attributes import AttributeUnknown, numa_node, pci_bus_id, pcie_root
from cathedra.driver.device import AttributeValue
from cathedra.drivers.nvidia.nvml import Gpu, GpuInstanceProfile

__all__ = ["Partition", "gpu_name", "partitions_of", "pool_of"]

_UPPER: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that may be made: of which GPU, how large, where."""

    gpu: Gpu
    profile: GpuInstanceProfile
    start: int
    size: int

    @property
    def name(self) -> str:
        """``gpu-0-mig-1g10gb-19-4``: GPU, size, profile, first slice of memory."""
        size = re.sub(r"[^a-z0-9-]", "-", self.profile.name.replace(".", "").lower())
        return f"{gpu_name(self.gpu)}-mig-{size}-{self.profile.id}-{self.start}"


def gpu_name(gpu: Gpu) -> str:
    """``gpu-0``, by the minor number, which is that of the device node."""
    return f"gpu-{gpu.minor}"


def partitions_of(gpu: Gpu) -> list[Partition]:
    """Every partition in every place, small ones first."""
    sizes = sorted(gpu.mig, key=lambda profile: (profile.memory_mib, profile.id))
    return [Partition(gpu, profile, start, size) for profile in sizes for start, size in profile.placements]


def pool_of(gpus: Iterable[Gpu], taints: Mapping[str, Iterable[DeviceTaint]], sysfs: Path) -> Pool:
    """All devices of the machine, with the taints of their GPUs."""
    devices: list[Device] = []
    counters: dict[str, Mapping[str, Quantity]] = {}
    for gpu in gpus:
        marked = tuple(taints.get(gpu.uuid, ()))
        partitions = partitions_of(gpu)
        if not partitions:
            memory = {"memory": _bytes(gpu.memory_bytes)}
            devices.append(Device(gpu_name(gpu), attributes=_whole(gpu, sysfs), capacity=memory, taints=marked))
            continue
        name = f"{gpu_name(gpu)}-counter-set"
        most = _most(gpu.mig)
        places = range(max(start + size for profile in gpu.mig for start, size in profile.placements))
        counters[name] = _counters(most, places)
        devices += [_partition(one, name, marked, sysfs) for one in partitions]
        devices.append(
            Device(
                gpu_name(gpu),
                attributes=_whole(gpu, sysfs),
                capacity=most,
                consumes={name: counters[name]},
                taints=marked,
            )
        )
    return Pool(devices=devices, counters=counters)


def _partition(partition: Partition, counter_set: str, taints: tuple[DeviceTaint, ...], sysfs: Path) -> Device:
    places = range(partition.start, partition.start + partition.size)
    capacity = _capacity(partition.profile)
    common = {key: value for key, value in _whole(partition.gpu, sysfs).items() if key != "uuid"}
    return Device(
        partition.name,
        attributes={
            **common,
            "type": "mig",
            "parentUUID": partition.gpu.uuid,
            "profile": partition.profile.name,
        },
        capacity=capacity,
        consumes={counter_set: _counters(capacity, places)},
        taints=taints,
    )


def _whole(gpu: Gpu, sysfs: Path) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "type": "gpu",
        "uuid": gpu.uuid,
        "productName": gpu.model,
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        "cudaComputeCapability": Version(gpu.compute_capability),
        "driverVersion": Version(gpu.driver_version),
        "cudaDriverVersion": Version(gpu.cuda_version),
        **({"cliqueID": gpu.clique} if gpu.clique else {}),
        **pci_bus_id(gpu.pci_address),
    }
    for ask in (pcie_root, numa_node):
        try:
            attributes.update(ask(gpu.pci_address, sysfs=sysfs))
        except AttributeUnknown:
            continue  # a virtual machine need not say
    return attributes


def _capacity(profile: GpuInstanceProfile) -> dict[str, Quantity]:
    return {
        "multiprocessors": Quantity(profile.multiprocessors),
        "copyEngines": Quantity(profile.copy_engines),
        "decoders": Quantity(profile.decoders),
        "encoders": Quantity(profile.encoders),
        "jpegEngines": Quantity(profile.jpeg_engines),
        "ofaEngines": Quantity(profile.ofa_engines),
        "memory": _bytes(profile.memory_mib * _MIB),
    }


def _most(profiles: Iterable[GpuInstanceProfile]) -> dict[str, Quantity]:
    """Of each capacity what the largest partition has: that is what the GPU has."""
    all_of = [_capacity(profile) for profile in profiles]
    return {key: max(capacity[key] for capacity in all_of) for key in all_of[0]}


def _counters(capacity: Mapping[str, Quantity], places: range) -> dict[str, Quantity]:
    """Counters are called by DNS labels: ``copyEngines`` counts as ``copy-engines``."""
    named = {_UPPER.sub("-", key).lower(): amount for key, amount in capacity.items()}
    return {**named, **{f"memory-slice-{place}": Quantity(1) for place in places}}


def _bytes(count: int) -> Quantity:
    return Quantity.of_value(count, Format.BINARY_SI)
