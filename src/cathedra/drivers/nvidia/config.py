"""Parameters of claims and classes for NVIDIA's devices, with the kinds of NVIDIA's DRA driver.

    apiVersion: resource.nvidia.com/v1beta1
    kind: GpuConfig                     # of a partition: MigDeviceConfig
    sharing:
      strategy: MPS
      mpsConfig:
        defaultActiveThreadPercentage: 50
        defaultPinnedDeviceMemoryLimit: 10Gi

Source: NVIDIA/k8s-dra-driver-gpu, api/nvidia.com/resource/v1beta1 (sharing.go, validate.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from cathedra.api.quantity import Quantity, QuantityError
from cathedra.driver import DriverError
from cathedra.driver.claim import ConfigModels

API_VERSION: Final = "resource.nvidia.com/v1beta1"
_MEBI: Final = 1024 * 1024
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")


class TimeSlicingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of time slicing."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"

    @property
    def number(self) -> int:
        """The interval as ``nvidia-smi`` takes it."""
        return _INTERVALS.index(self.interval)


class MpsConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Processes run at a time, by a control daemon of the claim's own."""

    default_active_thread_percentage: int | None = None
    default_pinned_device_memory_limit: str | None = None
    """Limit of each device without one of its own."""
    default_per_device_pinned_memory_limit: dict[str, str] = {}
    """UUID or index of a device → its limit."""

    def __post_init__(self) -> None:
        percentage = self.default_active_thread_percentage
        if percentage is not None and percentage < 0:
            raise ValueError("active thread percentage must not be negative")
        if percentage is not None and percentage > 100:
            raise ValueError("active thread percentage must not be greater than 100")
        if self.default_pinned_device_memory_limit is not None:
            _megabytes("default value", self.default_pinned_device_memory_limit)
        for key, limit in self.default_per_device_pinned_memory_limit.items():
            _megabytes(f"value of {key}", limit)

    def memory_limits(self, uuids: Sequence[str]) -> dict[str, str]:
        """Return the limit by UUID as the daemon takes it, for the devices that it serves.

        Raises:
            DriverError: a limit is for a device that is not among them.
        """
        default = self.default_pinned_device_memory_limit
        limits = {} if default is None else dict.fromkeys(uuids, _megabytes("default value", default))
        for key, limit in self.default_per_device_pinned_memory_limit.items():
            if key not in uuids and not (key.isdecimal() and int(key) < len(uuids)):
                raise DriverError(f"invalid device: {key} is neither the UUID nor the index of a device of the claim")
            uuid = key if key in uuids else uuids[int(key)]
            limits[uuid] = _megabytes(f"value of {key}", limit)
        return limits


def _megabytes(what: str, limit: str) -> str:
    try:
        amount = Quantity(limit).value() // _MEBI
    except QuantityError as error:
        raise ValueError(f"invalid limit: {what}: {error}") from error
    if amount <= 0:
        raise ValueError(f"invalid limit: {what} set too low: {limit}")
    return f"{amount}M"


class GpuSharing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One of two strategies, with its settings."""

    strategy: Literal["TimeSlicing", "MPS"]
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None

    def __post_init__(self) -> None:
        if self.strategy == "TimeSlicing" and self.mps_config is not None:
            raise ValueError("cannot use MpsConfig with the 'TimeSlicing' strategy")
        if self.strategy == "MPS" and self.time_slicing_config is not None:
            raise ValueError("cannot use TimeSlicingConfig with the 'MPS' strategy")


class MigDeviceSharing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The same for a partition, whose interval of time slicing cannot be set."""

    strategy: Literal["TimeSlicing", "MPS"]
    mps_config: MpsConfig | None = None


class GpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a whole GPU; without any nothing is changed on it."""

    sharing: GpuSharing | None = None


class MigDeviceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a partition."""

    sharing: MigDeviceSharing | None = None


CONFIGS: Final[ConfigModels] = {
    (API_VERSION, "GpuConfig"): GpuConfig,
    (API_VERSION, "MigDeviceConfig"): MigDeviceConfig,
}
"""The kinds that the driver takes."""
