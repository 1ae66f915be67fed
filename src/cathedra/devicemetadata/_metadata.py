"""The object in a device metadata file: the devices of a request, with the attributes that the driver gives them.

Plain frozen data, equal for all versions of the format (docs/spec/node.md §21.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

AttributeValue = int | bool | str | tuple[int, ...] | tuple[bool, ...] | tuple[str, ...]
"""An attribute's value. Strings and versions both are ``str``; `PreparedDevice.kinds` distinguishes them."""


class MetadataError(Exception):
    """A metadata file cannot be read: malformed, or in no version that is known here."""


class MetadataNotFound(MetadataError, FileNotFoundError):
    """There is no metadata file: the driver writes none, or the container does not use that request."""


@dataclass(frozen=True, slots=True)
class ClaimIdentity:
    """The ResourceClaim that the devices belong to."""

    name: str
    namespace: str
    uid: str
    generation: int = 0
    """1 after the claim was prepared; one more with each update of the file."""


@dataclass(frozen=True, slots=True)
class NetworkData:
    """Interface name, hardware address and IP addresses of a network device."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    """Addresses in CIDR notation."""
    hardware_address: str = ""


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device, as its driver describes it to the container."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}))
    kinds: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Attribute name → ``int``, ``bool``, ``string``, ``version`` or the plural for lists."""
    network_data: NetworkData | None = None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request of the claim with its devices. The name is ``request`` or ``request/subrequest``."""

    name: str
    devices: tuple[PreparedDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceMetadata:
    """The content of one file, or the merged content of all drivers' files of a request."""

    claim: ClaimIdentity
    requests: tuple[PreparedRequest, ...] = ()
    pod_claim_name: str | None = None
    """The name in the pod's ``spec.resourceClaims``, for claims made from a template only."""
