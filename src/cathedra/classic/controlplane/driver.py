"""What a driver of 1.31 decides for claims that name it as their controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cathedra.api import resource
from cathedra.classic.controller.driver import AllocatingDriver, WantedClaim
from cathedra.classic.controlplane.kinds.types import ControlledClaim

__all__ = ["ControllerAllocation", "ControllerDriver"]


@dataclass(slots=True)
class ControllerAllocation(WantedClaim[ControlledClaim]):
    """A claim on its way to its allocation, which is a `resource.AllocationResult`."""

    device_classes: Mapping[str, resource.DeviceClass]
    """The classes of the claim's requests, by name."""


class ControllerDriver(AllocatingDriver[ControlledClaim, ControllerAllocation]):
    """A driver whose controller allocates. Parameters stand in claims and classes themselves, as configuration."""
