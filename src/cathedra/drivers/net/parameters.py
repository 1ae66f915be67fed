"""What a claim may ask of its interface: the fields of dranet's NetworkConfig that are served here.

interface:
  name: eth1
  addresses: [10.0.0.5/24]
  mtu: 1400
  hardwareAddr: 02:00:00:00:00:05
routes:
  - destination: 10.1.0.0/16
    gateway: 10.0.0.1
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from cathedra.api.nulls import convert
from cathedra.driver import ConfigError

__all__ = ["InterfaceParameters", "NetworkParameters", "RouteParameters", "read_parameters"]

LONGEST_NAME: Final = 15
_NAME: Final = re.compile(r"[^\s/:]+")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


class InterfaceParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The interface itself."""

    name: str = ""
    """In the container; "": as on the host, or net0, net1 … for one that is made."""
    addresses: list[str] = []
    mtu: int | None = None
    mac: str = msgspec.field(name="hardwareAddr", default="")

    def __post_init__(self) -> None:
        if self.name and (len(self.name) > LONGEST_NAME or not _NAME.fullmatch(self.name) or self.name in (".", "..")):
            raise ValueError(f"name {self.name!r} is no name of an interface")
        for address in self.addresses:
            if "/" not in address:
                raise ValueError(f"address {address!r} must have a prefix length, as 10.0.0.5/24")
            ipaddress.ip_interface(address)
        if self.mac and not _MAC.fullmatch(self.mac):
            raise ValueError(f"hardwareAddr {self.mac!r} must be like 02:00:00:00:00:05")


class RouteParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A route over the interface."""

    destination: str
    gateway: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        ipaddress.ip_network(self.destination)
        for address in filter(None, (self.gateway, self.source)):
            ipaddress.ip_address(address)


class NetworkParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters as a whole."""

    interface: InterfaceParameters = InterfaceParameters()
    routes: list[RouteParameters] = []


def read_parameters(values: Mapping[str, Any]) -> NetworkParameters:
    """The parameters of a claim; ``apiVersion`` and ``kind`` may be there or not.

    Raises:
        ConfigError: they say what is not served, or is no address.
    """
    fields = {key: value for key, value in values.items() if key not in ("apiVersion", "kind")}
    try:
        return convert(fields, NetworkParameters)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"network parameters: {error}") from error
