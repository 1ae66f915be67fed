"""The interface of profiles: the simulated devices of the example driver."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from cathedra.driver import Claim, ClaimedDevice, Device, DeviceStatus, Pool
from cathedra.driver.claim import ConfigModels

_UUIDS: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


class Site(msgspec.Struct, frozen=True):
    """Driver and node of devices, which determine their identity."""

    driver: str
    node: str


class PrepareContext(msgspec.Struct, frozen=True):
    """Inputs of the preparation of one device."""

    site: Site
    claim: Claim
    allocation: ClaimedDevice
    device: Device
    """As it is published."""


class DriverProfile(Protocol):
    """Devices of one kind. A profile has no state: the same site has the same devices at every start."""

    @property
    def family(self) -> str:
        """The kind in one word, as ``gpu``: class of CDI names, and the driver's name is ``FAMILY.example.com``."""

    @property
    def configs(self) -> ConfigModels:
        """The opaque parameters that claims may carry."""

    @property
    def spells_own_domain(self) -> bool:
        """Return True if names of its capacities begin with the driver's name."""

    def pool(self, site: Site) -> Pool:
        """Return the devices of a node, in a stable order."""

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        """Return the container's variables for the device."""

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        """Return the device's entry in the claim's status; None without one."""


def device_uuid(site: Site, family: str, number: object) -> str:
    """Return a UUID that depends on driver, node and number alone, as ``gpu-6ba7b812-…``."""
    return f"{family}-{uuid.uuid5(_UUIDS, f'{site.driver}/{site.node}/{number}')}"


def variable_name(device: str) -> str:
    """Return a device's name as a part of the name of a variable."""
    return device.upper().replace("-", "_")
