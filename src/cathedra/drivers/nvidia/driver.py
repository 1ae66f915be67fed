"""The driver of NVIDIA GPUs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.resource import DeviceTaint
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
from cathedra.drivers.nvidia.config import (
    CONFIGS,
    GpuConfig,
    GpuSharing,
    MigDeviceConfig,
    MigDeviceSharing,
    MpsConfig,
    TimeSlicingConfig,
)
from cathedra.drivers.nvidia.devices import (
    LivePartition,
    Partition,
    PartitionError,
    common_edits,
    gpu_edits,
    gpu_name,
    make_partition,
    partition_edits,
    partitions_of,
    pool_of,
    remove_partition,
)
from cathedra.drivers.nvidia.driverfiles import find_driver_files
from cathedra.drivers.nvidia.nvml import Gpu, Nvml, load_nvml, read_gpus
from cathedra.drivers.nvidia.sharing import Commands, HostCommands, SharingManager
from cathedra.files.atomic import write_atomic
from cathedra.files.inotify import wait_for_files


class NvidiaConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The driver's configuration file."""

    driver: str = "gpu.nvidia.com"
    driver_root: str = msgspec.field(name="driverRoot", default="")
    """Directory of the kernel driver's libraries and programs; "": they are searched."""

    def __post_init__(self) -> None:
        if self.driver_root and not self.driver_root.startswith("/"):
            raise ValueError(f"driverRoot {self.driver_root!r} must be an absolute path, such as /run/nvidia/driver")


@dataclass(frozen=True, slots=True)
class ReadyDevice:
    """An existing device of a claim, and its sharing."""

    allocation: ClaimedDevice
    gpu: Gpu
    uuid: str
    edits: Edits
    sharing: GpuSharing | MigDeviceSharing | None
    memory: Mapping[str, Any] = field(default_factory=dict)
    """Memory of a partition, for its record; a whole GPU needs none."""

    def asks_for(self, config: MpsConfig) -> bool:
        """Return True if it is to be served by a daemon that is set up so."""
        sharing = self.sharing
        return sharing is not None and sharing.strategy == "MPS" and (sharing.mps_config or MpsConfig()) == config


class NvidiaDriver(Driver):
    """The GPUs of this machine."""

    cdi_class = "gpu"
    configs = CONFIGS

    def __init__(
        self,
        config: Path | None = None,
        nvml: Nvml | None = None,
        root: Path = Path("/"),
        commands: Commands | None = None,
        driver_root: Path | None = None,
    ) -> None:
        """``nvml``: pynvml, initialised; None loads it. ``root``: below which files of the machine are looked for.
        ``commands``: NVIDIA's programs; None calls those of the driver's root. ``driver_root``: overrides the file's.

        Raises:
            OptionError: the file is wrong, NVML cannot be used, or the kernel driver's libraries are not found.
        """
        settings = read_config(config, NvidiaConfig)
        self.name = settings.driver
        self.cdi_vendor = f"k8s.{self.name}"
        self._nvml = load_nvml() if nvml is None else nvml
        self._root = root
        version = self._nvml.nvmlSystemGetDriverVersion()
        # At the start: GPUs whose containers would find no libcuda must not be published.
        self._files = find_driver_files(
            version.decode() if isinstance(version, bytes) else str(version),
            root,
            driver_root or (Path(settings.driver_root) if settings.driver_root else None),
        )
        self._gpus = {gpu_name(gpu): gpu for gpu in read_gpus(self._nvml)}
        self._partitions = {one.name: one for gpu in self._gpus.values() for one in partitions_of(gpu)}
        self._sharing = SharingManager(
            commands or HostCommands(root, self._files), root / "var/run" / self.name / "mps"
        )
        self._faults: dict[tuple[str, str], GpuFault] = {}
        self._changed = asyncio.Event()

    def resources(self) -> Pool:
        """Return GPUs and partitions, with the taints of their faults."""
        taints = {
            gpu.uuid: [fault.taint(self.name) for fault in self._faults.values() if fault.uuid == gpu.uuid]
            for gpu in self._gpus.values()
        }
        return pool_of(self._gpus.values(), taints, self._root / "sys")

    def common_edits(self) -> Edits:
        """Return libraries and programs of the kernel driver, and the nodes that all GPUs share."""
        return common_edits(self._files, self._root)

    async def prepare(self, claim: Claim) -> AsyncIterator[Prepared]:
        """Create partitions, configure sharing, and yield the edits of each device.

        Raises:
            DriverError: the device does not exist, or NVML or one of NVIDIA's programs fails.
        """
        ready: list[ReadyDevice] = []
        try:
            for allocation in claim.allocations:
                ready.append(self._ready(allocation))
            shared = await self._share(claim.uid, ready)
        except BaseException:
            await self._abandon(claim.uid, ready)
            raise
        for device, edits in zip(ready, shared, strict=True):
            told = {"uuid": device.uuid, "productName": device.gpu.model, "driverVersion": device.gpu.driver_version}
            memory = {**device.memory, **({"sliced": True} if device.sharing is not None else {})}
            yield device.allocation.prepared(
                edits, metadata={"uuid": device.uuid}, status=DeviceStatus(data=told), memory=memory
            )

    def _ready(self, allocation: ClaimedDevice) -> ReadyDevice:
        gpu, partition = self._gpus.get(allocation.device), self._partitions.get(allocation.device)
        if partition is not None:
            return self._ready_partition(allocation, partition)
        if gpu is None:
            raise DriverError(f"there is no device {allocation.device}")
        return ReadyDevice(allocation, gpu, gpu.uuid, gpu_edits(gpu), allocation.config(GpuConfig).sharing)

    def _ready_partition(self, allocation: ClaimedDevice, partition: Partition) -> ReadyDevice:
        live = make_partition(self._nvml, partition)
        try:
            edits = partition_edits(partition.gpu, live.instance, live.compute, self._root)
        except DriverError:
            # Nothing has recorded the partition yet, so nothing else would remove it.
            remove_partition(self._nvml, partition.gpu, live)
            raise
        memory = {"instance": live.instance, "compute": live.compute, "uuid": live.uuid}
        sharing = allocation.config(MigDeviceConfig).sharing
        return ReadyDevice(allocation, partition.gpu, live.uuid, edits, sharing, memory)

    async def _abandon(self, claim: str, devices: Sequence[ReadyDevice]) -> None:
        """Remove the partitions of a claim that cannot be prepared.

        The claim's record gets their numbers only when it is complete, so no later call would find them. Their place
        would stay taken until the next reboot, for this claim too.
        """
        made = [device for device in devices if device.memory]
        if not made:
            return
        # A partition that a daemon of the claim uses cannot be removed.
        await self._sharing.stop_daemons(claim)
        for device in made:
            # The error of the claim is more important than that of its removal.
            with contextlib.suppress(PartitionError):
                remove_partition(self._nvml, device.gpu, _live(device.memory))

    async def _share(self, claim: str, devices: Sequence[ReadyDevice]) -> list[Edits]:
        """Configure sharing of each device; devices with equal settings share one daemon. Return the edits of each."""
        clients: dict[bytes, Edits] = {}
        edits = []
        for device in devices:
            sharing = device.sharing
            if isinstance(sharing, GpuSharing) and sharing.strategy == "TimeSlicing":
                await self._sharing.slice_time([device.uuid], sharing.time_slicing_config or TimeSlicingConfig())
            if sharing is None or sharing.strategy != "MPS":
                edits.append(device.edits)
                continue
            # A daemon has one set of limits, and a container sees the pipes of one daemon only. So devices of the claim
            # with equal settings share one.
            config = sharing.mps_config or MpsConfig()
            key = msgspec.json.encode(config, order="sorted")
            if key not in clients:
                mates = [one for one in devices if one.asks_for(config)]
                whole = [one.uuid for one in mates if not one.memory]
                clients[key] = await self._sharing.start_daemon(claim, [one.uuid for one in mates], config, whole)
            mine, daemon = device.edits, clients[key]
            edits.append(replace(mine, env={**mine.env, **daemon.env}, mounts=(*mine.mounts, *daemon.mounts)))
        return edits

    async def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        """Daemons end, GPUs serve every process again, and partitions are removed.

        Raises:
            SharingError: a GPU refuses.
            PartitionError: a partition is in use.
        """
        # Daemons first: a GPU or partition that a daemon still uses cannot be reset or removed.
        await self._sharing.stop_daemons(ref.uid)
        for device in prepared.devices:
            partition, gpu = self._partitions.get(device.device), self._gpus.get(device.device)
            memory = device.memory
            # The claim's parameters may be gone by now, so the record holds whether the GPU was changed. A GPU that
            # stayed exclusive would refuse the next pod's processes.
            if gpu is not None and memory.get("sliced"):
                await self._sharing.slice_time([gpu.uuid], TimeSlicingConfig())
            if partition is not None and "instance" in memory:
                remove_partition(self._nvml, partition.gpu, _live(memory))

    async def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        """Yield health: a device is unhealthy after a severe fault of its GPU; the message names it."""
        while True:
            # Taken before the yield: a fault that comes while the report is sent must cause the next report.
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
        """Listen to errors of the GPUs. Severe ones are recorded in ``directory``, and known after a restart."""
        # A simulated node has no directory: faults are then known until the driver ends.
        if directory is None:
            await self._listen(None)
            return
        records = FaultRecords(directory / "faults", self._boot_id())
        self._enter(records.load())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(records))
            group.create_task(self._follow_records(records))

    async def _listen(self, records: FaultRecords | None) -> None:
        async for faults in watch_faults(self._nvml, list(self._gpus.values())):
            # Recorded first: a fault that is entered without a file would count as taken back.
            if records is not None:
                records.add(faults)
            self._enter(faults)

    async def _follow_records(self, records: FaultRecords) -> None:
        while True:
            await records.wait_taken_back(self._faults.values)
            kept = {key: fault for key, fault in self._faults.items() if not records.is_taken_back(fault)}
            self._faults = kept
            self._enter(())

    def _enter(self, faults: Iterable[GpuFault]) -> None:
        for fault in faults:
            known = self._faults.get((fault.uuid, fault.kind))
            # An application's XID error on a broken GPU does not repair it.
            if known is None or fault.is_severe or not known.is_severe:
                self._faults[fault.uuid, fault.kind] = fault
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self.republish()

    def _boot_id(self) -> str:
        try:
            return (self._root / "proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""


def _live(memory: Mapping[str, Any]) -> LivePartition:
    return LivePartition(int(memory["instance"]), int(memory["compute"]), str(memory["uuid"]))


# Errors of GPUs, as NVML reports them while they happen, and what they mean for a device.
#
# The keys of taints are those of NVIDIA's driver; that for ECC errors, which it leaves out, is ours. Errors that an
# application causes are shown and keep nothing away.

T = TypeVar("T")

_PATIENCE_MS: Final = 1000
"""Maximum time of one wait for an event, so that the driver can end."""
_OF_APPLICATIONS: Final = frozenset((13, 31, 43, 45, 68, 109))
"""XID errors after which the GPU is as well as before (NVIDIA's list)."""


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A fault of a GPU."""

    uuid: str
    kind: str
    """``xid``, ``double-bit-ecc``, ``gpu-lost`` or ``unmonitored``."""
    value: str = ""

    @property
    def is_severe(self) -> bool:
        """Return True if no new claim should get the device."""
        if self.kind == "xid":
            return int(self.value) not in _OF_APPLICATIONS
        return self.kind != "unmonitored"

    def taint(self, domain: str) -> DeviceTaint:
        """Return the taint for the fault."""
        effect = "NoSchedule" if self.is_severe else "None"
        return DeviceTaint(key=f"{domain}/{self.kind}", value=self.value, effect=effect)


class FaultRecords:
    """Severe faults of this boot as files, so that a restart of the driver does not offer a broken GPU again.

    A file is named after the GPU and the fault: ``GPU-UUID_xid_79``. Removing it takes the fault back, also while the
    driver runs. Its content is the boot ID: a restart of the machine resets the GPU.
    """

    def __init__(self, directory: Path, boot_id: str) -> None:
        self._directory = directory
        self._boot_id = boot_id

    def load(self) -> list[GpuFault]:
        """Return the faults of this boot, and remove the files of earlier ones."""
        self._directory.mkdir(parents=True, exist_ok=True)
        found = []
        for path in sorted(self._directory.glob("*_*_*")):
            # The boot and not the time: a restart of the machine resets the GPU, however short ago the fault was.
            if path.read_text() == self._boot_id:
                found.append(GpuFault(*path.name.split("_", 2)))
            else:
                path.unlink()
        return found

    def add(self, faults: Iterable[GpuFault]) -> None:
        """Record the severe ones among ``faults``."""
        for fault in faults:
            if fault.is_severe:
                write_atomic(self._path(fault), self._boot_id.encode())

    def is_taken_back(self, fault: GpuFault) -> bool:
        """Return True if the fault was recorded and its file was removed."""
        return fault.is_severe and not self._path(fault).exists()

    async def wait_taken_back(self, faults: Callable[[], Iterable[GpuFault]]) -> None:
        """Return when the file of one of ``faults`` is missing."""
        await wait_for_files(lambda: any(map(self.is_taken_back, faults())), (self._directory,))

    def _path(self, fault: GpuFault) -> Path:
        return self._directory / f"{fault.uuid}_{fault.kind}_{fault.value}"


async def watch_faults(nvml: Nvml, gpus: Sequence[Gpu]) -> AsyncIterator[list[GpuFault]]:
    """Faults as they happen; first those GPUs that cannot be watched."""
    events = nvml.nvmlEventSetCreate()
    try:
        unmonitored = [GpuFault(gpu.uuid, "unmonitored") for gpu in gpus if not _register(nvml, gpu, events)]
        if unmonitored:
            yield unmonitored
        if len(unmonitored) == len(gpus):
            return
        while True:
            faults = await _uninterrupted(asyncio.ensure_future(asyncio.to_thread(_next, nvml, events, gpus)))
            if faults:
                yield faults
    finally:
        nvml.nvmlEventSetFree(events)


async def _uninterrupted(waiting: asyncio.Future[T]) -> T:
    """Return the result. A cancelled caller waits for it all the same, because the library still uses the events."""
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await waiting
        raise


def _register(nvml: Nvml, gpu: Gpu, events: Any) -> bool:
    # NVML refuses a registration as a whole if the GPU lacks one of its types; consumer cards count no ECC errors.
    wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
    try:
        supported = nvml.nvmlDeviceGetSupportedEventTypes(gpu.handle) & wanted
        nvml.nvmlDeviceRegisterEvents(gpu.handle, supported, events)
    except nvml.NVMLError:
        return False
    return bool(supported)


def _next(nvml: Nvml, events: Any, gpus: Sequence[Gpu]) -> list[GpuFault]:
    """Return the faults of the next event; none if there is no event for a while."""
    try:
        event = nvml.nvmlEventSetWait(events, _PATIENCE_MS)
        found = nvml.nvmlDeviceGetUUID(event.device)
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_TIMEOUT:
            return []
        if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
            # The lost GPU can no longer be identified.
            return [GpuFault(gpu.uuid, "gpu-lost") for gpu in gpus]
        raise
    uuid = found.decode() if isinstance(found, bytes) else str(found)
    if event.eventType == nvml.nvmlEventTypeDoubleBitEccError:
        return [GpuFault(uuid, "double-bit-ecc")]
    return [GpuFault(uuid, "xid", str(int(event.eventData)))]
