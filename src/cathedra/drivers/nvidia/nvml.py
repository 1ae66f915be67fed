"""GPUs of the machine from NVML, as values.

The library is passed in as a module with pynvml's functions, which raise its ``NVMLError``. Missing features are no
errors: an old GPU has no MIG, one without NVLink switches no fabric.
"""

from __future__ import annotations

import ctypes
import importlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from cathedra.driver import OptionError

T = TypeVar("T")
Nvml = Any
"""pynvml, or what has its functions: a module, which has no type that could be written down."""

_ARCHITECTURES: Final = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_BRANDS: Final = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    5: "GeForce",
    6: "Titan",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
}
_PROFILES: Final = 18
"""``NVML_GPU_INSTANCE_PROFILE_COUNT``: profiles are read by number, and NVML refuses those that a GPU lacks."""
_FABRIC_COMPLETED: Final = 3


@dataclass(frozen=True, slots=True)
class GpuInstanceProfile:
    """A size of partition that a GPU offers, and where such partitions may lie."""

    id: int
    name: str
    """As nvidia-smi has it: ``1g.10gb``."""
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    memory_mib: int
    slices: int
    """Number of compute slices."""
    placements: tuple[tuple[int, int], ...]
    """First slice of memory, and number of slices."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU and its properties."""

    handle: Any
    minor: int
    uuid: str
    model: str
    brand: str
    architecture: str
    compute_capability: str
    memory_bytes: int
    driver_version: str
    cuda_version: str
    pci_address: str
    """As sysfs writes it, ``0000:3b:00.0``."""
    clique: str
    """NVLink domain: cluster and clique, as ``UUID.1``; "" if in none."""
    mig: tuple[GpuInstanceProfile, ...]
    """Partition profiles; empty unless the GPU is in MIG mode."""


def load_nvml() -> Nvml:
    """Return pynvml, initialised.

    Raises:
        OptionError: it is not installed, or there is no GPU that it can speak to.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise OptionError("nvidia-ml-py is not installed: pip install 'cathedra[nvidia]'") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise OptionError(f"NVML cannot be used here: {error}") from error
    return nvml


def read_gpus(nvml: Nvml) -> list[Gpu]:
    """Return all GPUs, by minor number."""
    driver, cuda = _text(nvml.nvmlSystemGetDriverVersion()), int(nvml.nvmlSystemGetCudaDriverVersion())
    versions = (_semantic(driver), f"{cuda // 1000}.{cuda % 1000 // 10}.0")
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return sorted((_gpu(nvml, handle, versions) for handle in handles), key=lambda gpu: gpu.minor)


def _gpu(nvml: Nvml, handle: Any, versions: tuple[str, str]) -> Gpu:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        handle=handle,
        minor=int(nvml.nvmlDeviceGetMinorNumber(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        model=_text(nvml.nvmlDeviceGetName(handle)),
        brand=_BRANDS.get(int(nvml.nvmlDeviceGetBrand(handle)), "Unknown"),
        architecture=_ARCHITECTURES.get(int(nvml.nvmlDeviceGetArchitecture(handle)), "Unknown"),
        compute_capability=f"{major}.{minor}.0",
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver_version=versions[0],
        cuda_version=versions[1],
        pci_address=_pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        clique=_supported(nvml, lambda: _clique(nvml, handle)) or "",
        mig=_mig(nvml, handle),
    )


def _mig(nvml: Nvml, handle: Any) -> tuple[GpuInstanceProfile, ...]:
    mode = _supported(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle))
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return ()
    found = (_supported(nvml, partial(_profile, nvml, handle, number)) for number in range(_PROFILES))
    return tuple(profile for profile in found if profile is not None)


def _profile(nvml: Nvml, handle: Any, number: int) -> GpuInstanceProfile:
    info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, None, ctypes.byref(count))
    places = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, info.id, places, ctypes.byref(count))
    name = _text(info.name).removeprefix("MIG ")
    return GpuInstanceProfile(
        id=int(info.id),
        name=name,
        multiprocessors=int(info.multiprocessorCount),
        copy_engines=int(info.copyEngineCount),
        decoders=int(info.decoderCount),
        encoders=int(info.encoderCount),
        jpeg_engines=int(info.jpegCount),
        ofa_engines=int(info.ofaCount),
        memory_mib=int(info.memorySizeMB),
        slices=int(info.sliceCount),
        placements=tuple((int(place.start), int(place.size)) for place in places[: count.value]),
    )


def _clique(nvml: Nvml, handle: Any) -> str:
    info = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    if info.state != _FABRIC_COMPLETED:
        return ""
    return f"{uuid.UUID(bytes=bytes(bytearray(info.clusterUuid)))}.{info.cliqueId}"


def _supported(nvml: Nvml, call: Callable[[], T]) -> T | None:
    """Return the result of ``call``; None if the GPU or its driver does not support that call."""
    try:
        return call()
    except nvml.NVMLError as error:
        known = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT)
        if error.value in known:
            return None
        raise


def _pci_address(bus_id: str) -> str:
    """NVML writes eight digits of the domain, sysfs four."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _semantic(version: str) -> str:
    """Return a version of three numbers without leading zeros: ``570.86.15``; ``535.104`` becomes ``535.104.0``."""
    numbers = [str(int(part)) for part in version.split(".")[:3] if part.isdigit()]
    return ".".join([*numbers, "0", "0"][:3])


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
