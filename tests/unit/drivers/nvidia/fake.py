"""NVML with recorded answers, behind the functions of pynvml.

The answers are those of an NVIDIA H100 with 80 GB (``h100.json``, with another UUID): model, memory, events, profiles
with their placements and engines. What MIG mode changes was not recorded, because it was off. Of the errors that the
real library raises, those are raised that `cathedra.drivers.nvidia` has to handle.
"""

# ruff: noqa: N801, N802, N815 (the names are pynvml's)

from __future__ import annotations

import ctypes
import json
import queue
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """An error with NVML's number."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(f"NVML error {value}")


class c_nvmlGpuInstancePlacement_t(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]


class c_nvmlGpuFabricInfo_t(ctypes.Structure):
    _fields_ = [
        ("clusterUuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_ubyte),
    ]


RECORDED = json.loads(Path(__file__).with_name("h100.json").read_text())
GPU = RECORDED["devices"][0]
VERSION = RECORDED["system"]["nvmlSystemGetDriverVersion"]
PROFILES = GPU["GpuInstanceProfiles"]
"""By number: ``v1`` has the profile or an error, ``placements`` its places."""


@dataclass
class Card:
    """One GPU and what has been made of it."""

    minor: int
    mig: bool = False
    fabric: bool = False
    events: int = GPU["SupportedEventTypes"]
    made: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Instance → first slice and number of slices."""
    busy: bool = False


class FakeNvml:
    """A fake of the module ``pynvml``."""

    NVMLError = NVMLError
    c_nvmlGpuInstancePlacement_t = c_nvmlGpuInstancePlacement_t
    c_nvmlGpuFabricInfo_t = c_nvmlGpuFabricInfo_t
    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_FOUND = 2, 3, 6
    NVML_ERROR_INSUFFICIENT_SIZE, NVML_ERROR_TIMEOUT, NVML_ERROR_FUNCTION_NOT_FOUND = 7, 10, 13
    NVML_ERROR_GPU_IS_LOST, NVML_ERROR_IN_USE = 15, 19
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0
    nvmlEventTypeDoubleBitEccError, nvmlEventTypeXidCriticalError = 2, 8

    def __init__(self, *cards: Card) -> None:
        self.cards = cards
        self.events: queue.Queue[Any] = queue.Queue()
        self.freed = False

    def nvmlSystemGetDriverVersion(self) -> str:
        return str(VERSION)

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return int(RECORDED["system"]["nvmlSystemGetCudaDriverVersion"])

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def nvmlDeviceGetMinorNumber(self, card: Card) -> int:
        return card.minor

    def nvmlDeviceGetUUID(self, card: Any) -> str:
        if isinstance(card, SimpleNamespace):
            return f"MIG-{card.card.minor}-{card.instance}"
        return f"GPU-0000000{card.minor}-1111-2222-3333-444444444444"

    def nvmlDeviceGetName(self, card: Card) -> bytes:
        return str(GPU["Name"]).encode()

    def nvmlDeviceGetBrand(self, card: Card) -> int:
        return int(GPU["Brand"])

    def nvmlDeviceGetArchitecture(self, card: Card) -> int:
        return int(GPU["Architecture"])

    def nvmlDeviceGetCudaComputeCapability(self, card: Card) -> tuple[int, int]:
        major, minor = GPU["CudaComputeCapability"]
        return major, minor

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> Any:
        return SimpleNamespace(**GPU["MemoryInfo"])

    def nvmlDeviceGetPciInfo(self, card: Card) -> Any:
        return SimpleNamespace(busId=f"00000000:0{card.minor + 7}:00.0".encode())

    def nvmlDeviceGetGpuFabricInfo(self, card: Card, reference: Any) -> None:
        if not card.fabric:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        info = reference._obj
        info.clusterUuid, info.cliqueId, info.state = (ctypes.c_uint8 * 16)(*range(16)), 7, 3

    def nvmlDeviceGetMigMode(self, card: Card) -> list[int]:
        return [int(card.mig), int(card.mig)]

    def nvmlDeviceGetGpuInstanceProfileInfo(self, card: Card, number: int) -> Any:
        found = PROFILES[str(number)]["v1"]
        if "error" in found:
            raise NVMLError(found["error"])
        return SimpleNamespace(**{**found, "name": found["name"].encode()})

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, card: Card, profile: int, places: Any, count: Any) -> None:
        (found,) = (one["placements"] for one in PROFILES.values() if one["v1"].get("id") == profile)
        count._obj.value = len(found)
        for index, (start, size) in enumerate(found if places is not None else ()):
            places[index].start, places[index].size = start, size

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, card: Card, profile: int, place: Any) -> Any:
        wanted = set(range(place.start, place.start + place.size))
        if any(wanted & set(range(start, start + size)) for start, size in card.made.values()):
            raise NVMLError(self.NVML_ERROR_INSUFFICIENT_SIZE)
        number = max(card.made, default=0) + 1
        card.made[number] = (place.start, place.size)
        return SimpleNamespace(card=card, instance=number)

    def nvmlGpuInstanceGetInfo(self, instance: Any) -> Any:
        return SimpleNamespace(id=instance.instance)

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, instance: Any, profile: int, engine: int) -> Any:
        return SimpleNamespace(id=profile)

    def nvmlGpuInstanceCreateComputeInstance(self, instance: Any, profile: int) -> Any:
        return instance

    def nvmlComputeInstanceGetInfo(self, compute: Any) -> Any:
        return SimpleNamespace(id=0)

    def nvmlDeviceGetMaxMigDeviceCount(self, card: Card) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: int) -> Any:
        if index >= len(card.made):
            raise NVMLError(self.NVML_ERROR_NOT_FOUND)
        return SimpleNamespace(card=card, instance=sorted(card.made)[index])

    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        return int(device.instance)

    def nvmlDeviceGetComputeInstanceId(self, device: Any) -> int:
        return 0

    def nvmlDeviceGetGpuInstanceById(self, card: Card, number: int) -> Any:
        if number not in card.made:
            raise NVMLError(self.NVML_ERROR_NOT_FOUND)
        return SimpleNamespace(card=card, instance=number)

    def nvmlGpuInstanceGetComputeInstanceById(self, instance: Any, number: int) -> Any:
        return instance

    def nvmlComputeInstanceDestroy(self, compute: Any) -> None:
        if compute.card.busy:
            raise NVMLError(self.NVML_ERROR_IN_USE)

    def nvmlGpuInstanceDestroy(self, instance: Any) -> None:
        del instance.card.made[instance.instance]

    def nvmlEventSetCreate(self) -> object:
        return object()

    def nvmlEventSetFree(self, events: object) -> None:
        self.freed = True

    def nvmlDeviceGetSupportedEventTypes(self, card: Card) -> int:
        return card.events

    def nvmlDeviceRegisterEvents(self, card: Card, kinds: int, events: object) -> None:
        if not kinds:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)

    def nvmlEventSetWait(self, events: object, milliseconds: int) -> Any:
        try:
            event = self.events.get(timeout=0.01)
        except queue.Empty:
            raise NVMLError(self.NVML_ERROR_TIMEOUT) from None
        if isinstance(event, NVMLError):
            raise event
        return event

    def happens(self, card: Card, kind: int, data: int = 0) -> None:
        """Let an event happen."""
        self.events.put(SimpleNamespace(device=card, eventType=kind, eventData=data))


def machine(root: Path, *minors: int) -> Path:
    """The files of a machine with these GPUs: nodes of devices, libraries, access rights of partitions."""
    files = [f"usr/lib/x86_64-linux-gnu/{name}.{VERSION}" for name in ("libcuda.so", "libnvidia-ml.so")]
    files += ["usr/bin/nvidia-smi", "usr/bin/nvidia-cdi-hook", "dev/nvidiactl", "dev/nvidia-uvm"]
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    lines = [
        f"gpu{minor}/gi{gi}/{what}access {minor * 100 + gi * 10 + extra}"
        for minor in minors
        for gi in range(1, 8)
        for extra, what in ((1, ""), (2, "ci0/"))
    ]
    (root / "proc/driver/nvidia-caps").mkdir(parents=True)
    (root / "proc/driver/nvidia-caps/mig-minors").write_text("config 1\nmonitor 2\n" + "\n".join(lines) + "\n")
    place = root / "sys/devices/pci0000:00/0000:07:00.0"
    place.mkdir(parents=True)
    (place / "numa_node").write_text("0")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:07:00.0").symlink_to(place)
    return root
