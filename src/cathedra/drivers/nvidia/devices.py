"""GPUs and MIG devices: published devices, creation and deletion of partitions, and edits of containers.

Names and attributes are those of NVIDIA's DRA driver. A GPU in MIG mode is published whole and as every partition in
every place. All of these consume the counters of the GPU: engines, memory, and each memory slice by its number, which
prevents overlapping partitions. A partition is a GPU instance with one compute instance of its full size.

Edits are those that NVIDIA's toolkit writes into CDI documents. Every container gets the nodes that all GPUs share, the
libraries and programs of the kernel driver's version, and a hook of our own that makes the links of the libraries and
an updated cache of the dynamic linker. Each device adds its node, and a partition its two capability nodes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cathedra.api.quantity import Format, Quantity
from cathedra.api.resource import DeviceTaint
from cathedra.driver import Device, DeviceNode, DriverError, Edits, Hook, Mount, Pool, Version
from cathedra.driver.attributes import AttributeUnknown, numa_node, pci_bus_id, pcie_root
from cathedra.driver.device import AttributeValue
from cathedra.drivers.nvidia.driverfiles import DriverFiles
from cathedra.drivers.nvidia.nvml import Gpu, GpuInstanceProfile, Nvml

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
    """Return every partition in every place, small ones first."""
    sizes = sorted(gpu.mig, key=lambda profile: (profile.memory_mib, profile.id))
    return [Partition(gpu, profile, start, size) for profile in sizes for start, size in profile.placements]


def pool_of(gpus: Iterable[Gpu], taints: Mapping[str, Iterable[DeviceTaint]], sysfs: Path) -> Pool:
    """Return all devices of the machine, with the taints of their GPUs."""
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
            continue  # a virtual machine may lack it
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
    """Return each capacity of the largest partition, which is that of the GPU."""
    all_of = [_capacity(profile) for profile in profiles]
    return {key: max(capacity[key] for capacity in all_of) for key in all_of[0]}


def _counters(capacity: Mapping[str, Quantity], places: range) -> dict[str, Quantity]:
    """Counters are called by DNS labels: ``copyEngines`` counts as ``copy-engines``."""
    named = {_UPPER.sub("-", key).lower(): amount for key, amount in capacity.items()}
    return {**named, **{f"memory-slice-{place}": Quantity(1) for place in places}}


def _bytes(count: int) -> Quantity:
    return Quantity.of_value(count, Format.BINARY_SI)


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
        try:
            return LivePartition(number, compute, _uuid(nvml, partition.gpu, number, compute))
        except (nvml.NVMLError, PartitionError):
            # Its numbers get into no record, so no later call could remove it.
            remove_partition(nvml, partition.gpu, LivePartition(number, compute, ""))
            raise
    except nvml.NVMLError as error:
        raise PartitionError(f"cannot make {partition.name}: {error}") from error


def _compute_instance(nvml: Nvml, instance: Any, slices: int) -> int:
    """Create the compute instance with all slices and return its ID; profiles are numbered as in NVML's header."""
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


_SHARED_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")


def common_edits(files: DriverFiles, root: Path = Path("/")) -> Edits:
    """Return the edits of every container with a device of this driver."""
    nodes = [DeviceNode(path=f"/dev/{name}") for name in _SHARED_NODES if (root / "dev" / name).exists()]
    return Edits(
        # Disables an older hook of the toolkit, if it is installed.
        env={"NVIDIA_VISIBLE_DEVICES": "void"},
        device_nodes=nodes,
        mounts=[
            Mount(host_path=str(one.host), container_path=str(one.container), options=_READ_ONLY)
            for one in (*files.libraries, *files.programs)
        ],
        hooks=[_links_and_cache(files)],
    )


def gpu_edits(gpu: Gpu) -> Edits:
    """For a whole GPU."""
    return Edits(device_nodes=[DeviceNode(path=f"/dev/nvidia{gpu.minor}")])


def partition_edits(gpu: Gpu, instance: int, compute: int, root: Path = Path("/")) -> Edits:
    """Return the edits of a partition: the GPU's node, and the partition's two capability nodes.

    Raises:
        DriverError: the kernel driver does not list these nodes.
    """
    minors = _access_minors(root)
    wanted = (f"gpu{gpu.minor}/gi{instance}/access", f"gpu{gpu.minor}/gi{instance}/ci{compute}/access")
    missing = [name for name in wanted if name not in minors]
    if missing:
        raise DriverError(f"/proc/driver/nvidia-caps/mig-minors does not name {missing[0]}")
    nodes = [f"/dev/nvidia-caps/nvidia-cap{minors[name]}" for name in wanted]
    return Edits(device_nodes=[DeviceNode(path=f"/dev/nvidia{gpu.minor}"), *(DeviceNode(path=p) for p in nodes)])


def _access_minors(root: Path) -> dict[str, str]:
    try:
        lines = (root / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(maxsplit=1) for line in lines if len(line.split()) == 2)


def _links_and_cache(files: DriverFiles) -> Hook:
    return Hook(
        hook_name="createContainer",
        path=sys.executable,
        args=(
            sys.executable,
            "-m",
            "cathedra.drivers.hooks.libraries",
            *(str(one.container) for one in files.libraries),
        ),
    )
