"""The driver of NVIDIA GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from cathedra.client.client import Client
from cathedra.driver import (
    Claim,
    DeviceHealth,
    DeviceStatus,
    Driver,
    DriverError,
    Edits,
    Health,
    Pool,
    Prepared,
    PreparedClaim,
    Ref,
)
from cathedra.driver.claim import ClaimedDevice
from cathedra.drivers.configfile import read_config
from cathedra.drivers.nvidia.devices import Partition, gpu_name, partitions_of, pool_of
from cathedra.drivers.nvidia.edits import common_edits, gpu_edits, partition_edits
from cathedra.drivers.nvidia.monitor import GpuFault, watch_faults
from cathedra.drivers.nvidia.nvml import Gpu, Nvml, load_nvml, read_gpus
from cathedra.drivers.nvidia.partitions import LivePartition, make_partition, remove_partition

__all__ = ["NvidiaConfig", "NvidiaDriver"]


class NvidiaConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The driver's file."""

    driver: str = "gpu.nvidia.com"


class NvidiaDriver(Driver):
    """The GPUs of this machine."""

    cdi_class = "gpu"

    def __init__(self, config: Path | None = None, nvml: Nvml | None = None, root: Path = Path("/")) -> None:
        """``nvml``: pynvml, initialised; None loads it. ``root``: below which files of the machine are looked for.

        Raises:
            OptionError: the file is wrong, or NVML cannot be used.
        """
        self.name = read_config(config, NvidiaConfig).driver
        self.cdi_vendor = f"k8s.{self.name}"
        self._nvml = load_nvml() if nvml is None else nvml
        self._root = root
        self._gpus = {gpu_name(gpu): gpu for gpu in read_gpus(self._nvml)}
        self._partitions = {one.name: one for gpu in self._gpus.values() for one in partitions_of(gpu)}
        self._faults: dict[tuple[str, str], GpuFault] = {}
        self._changed = asyncio.Event()

    def resources(self) -> Pool:
        """GPUs and partitions, with the taints of what has happened to them."""
        taints = {
            gpu.uuid: [fault.taint(self.name) for fault in self._faults.values() if fault.uuid == gpu.uuid]
            for gpu in self._gpus.values()
        }
        return pool_of(self._gpus.values(), taints, self._root / "sys")

    def common_edits(self) -> Edits:
        """Libraries and programs of the kernel driver, and the nodes that all GPUs share."""
        version = self._nvml.nvmlSystemGetDriverVersion()
        return common_edits(version.decode() if isinstance(version, bytes) else str(version), self._root)

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """A GPU is ready as it is; a partition is made.

        Raises:
            DriverError: there is no such device, or NVML refuses.
        """
        for allocation in claim.allocations:
            gpu, partition = self._gpus.get(allocation.device), self._partitions.get(allocation.device)
            if partition is not None:
                yield self._prepare_partition(allocation, partition)
            elif gpu is not None:
                yield self._answer(allocation, gpu_edits(gpu), gpu, gpu.uuid, {})
            else:
                raise DriverError(f"there is no device {allocation.device}")

    def _prepare_partition(self, allocation: ClaimedDevice, partition: Partition) -> Prepared:
        live = make_partition(self._nvml, partition)
        try:
            edits = partition_edits(partition.gpu, live.instance, live.compute, self._root)
        except DriverError:
            remove_partition(self._nvml, partition.gpu, live)
            raise
        memory = {"instance": live.instance, "compute": live.compute, "uuid": live.uuid}
        return self._answer(allocation, edits, partition.gpu, live.uuid, memory)

    def _answer(self, allocation: ClaimedDevice, edits: Edits, gpu: Gpu, uuid: str, memory: dict[str, Any]) -> Prepared:
        told = {"uuid": uuid, "productName": gpu.model, "driverVersion": gpu.driver_version}
        return allocation.prepared(edits, metadata={"uuid": uuid}, status=DeviceStatus(data=told), memory=memory)

    def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        """Partitions are removed.

        Raises:
            PartitionError: one is in use.
        """
        for device in prepared.devices:
            partition = self._partitions.get(device.device)
            if partition is not None and device.memory:
                memory = device.memory
                live = LivePartition(int(memory["instance"]), int(memory["compute"]), str(memory["uuid"]))
                remove_partition(self._nvml, partition.gpu, live)

    async def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        """A device is unhealthy when something severe has happened to its GPU; why, says the message."""
        while True:
            changed = self._changed
            yield [
                *(self._health_of(name, gpu) for name, gpu in self._gpus.items()),
                *(self._health_of(name, one.gpu) for name, one in self._partitions.items()),
            ]
            await changed.wait()

    def _health_of(self, name: str, gpu: Gpu) -> DeviceHealth:
        faults = [fault for fault in self._faults.values() if fault.uuid == gpu.uuid]
        message = ", ".join(f"{fault.kind} {fault.value}".strip() for fault in faults)
        severe = any(fault.is_severe for fault in faults)
        return DeviceHealth(name, Health.UNHEALTHY if severe else Health.HEALTHY, message=message)

    async def background(self, client: Client, directory: Path | None) -> None:
        """Listen to errors of the GPUs."""
        async for faults in watch_faults(self._nvml, list(self._gpus.values())):
            self._faults.update(((fault.uuid, fault.kind), fault) for fault in faults)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            self.republish()
