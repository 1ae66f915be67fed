"""Errors of GPUs, as NVML reports them while they happen, and what they mean for a device.

The keys of taints are those of NVIDIA's driver; that for ECC errors, which it leaves out, is ours. Errors that an
application causes are shown and keep nothing away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from cathedra.api.resource import DeviceTaint
from cathedra.drivers.nvidia.nvml import Gpu, Nvml
from cathedra.files.atomic import write_atomic
from cathedra.files.inotify import wait_for_files

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
