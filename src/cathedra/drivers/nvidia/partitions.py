"""Makes MIG devices and removes them: a GPU instance in its place, and one compute instance that is all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cathedra.driver import DriverError
from cathedra.drivers.nvidia.devices import Partition
from cathedra.drivers.nvidia.nvml import Gpu, Nvml

__all__ = ["LivePartition", "PartitionError", "make_partition", "remove_partition"]


class PartitionError(DriverError):
    """NVML refuses; the text is its."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A MIG device that exists, by the numbers that NVML gave it."""

    instance: int
    compute: int
    uuid: str


def make_partition(nvml: Nvml, partition: Partition) -> LivePartition:
    """Make it.

    Raises:
        PartitionError: the place is taken, or the GPU cannot be cut now.
    """
    try:
        place = nvml.c_nvmlGpuInstancePlacement_t(partition.start, partition.size)
        handle = partition.gpu.handle
        instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, partition.profile.id, place)
        number = int(nvml.nvmlGpuInstanceGetInfo(instance).id)
        try:
            compute = _compute_instance(nvml, instance, partition.profile.slices)
        except nvml.NVMLError:
            nvml.nvmlGpuInstanceDestroy(instance)
            raise
        return LivePartition(number, compute, _uuid(nvml, partition.gpu, number, compute))
    except nvml.NVMLError as error:
        raise PartitionError(f"cannot make {partition.name}: {error}") from error


def _compute_instance(nvml: Nvml, instance: Any, slices: int) -> int:
    """The compute instance with all slices; the profiles are in the order of the table of NVML's header."""
    profile = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}[slices]
    shared = nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    info = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, profile, shared)
    made = nvml.nvmlGpuInstanceCreateComputeInstance(instance, info.id)
    return int(nvml.nvmlComputeInstanceGetInfo(made).id)


def _uuid(nvml: Nvml, gpu: Gpu, instance: int, compute: int) -> str:
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu.handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, index)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NOT_FOUND:
                raise
            continue
        numbers = (nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device))
        if numbers == (instance, compute):
            found = nvml.nvmlDeviceGetUUID(device)
            return found.decode() if isinstance(found, bytes) else str(found)
    raise PartitionError(f"the MIG device of GPU {gpu.uuid}, instances {instance} and {compute}, does not appear")


def remove_partition(nvml: Nvml, gpu: Gpu, live: LivePartition) -> None:
    """Remove it; no matter if it is gone.

    Raises:
        PartitionError: it is in use.
    """
    try:
        instance = nvml.nvmlDeviceGetGpuInstanceById(gpu.handle, live.instance)
        try:
            nvml.nvmlComputeInstanceDestroy(nvml.nvmlGpuInstanceGetComputeInstanceById(instance, live.compute))
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NOT_FOUND:
                raise
        nvml.nvmlGpuInstanceDestroy(instance)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_FOUND:
            raise PartitionError(f"cannot remove the MIG device {live.uuid}: {error}") from error
