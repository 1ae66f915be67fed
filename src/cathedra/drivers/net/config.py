"""Configuration of the network driver, and the parameters of claims.

    interfaces: ["eth*", ens5]       # patterns; an interface that carries a default route is left out
    virtual:                         # created for each claim
      - name: lan                    # the device net-lan
        kind: macvlan                # or ipvlan, veth, dummy
        parent: eth0                 # for macvlan and ipvlan
        addresses: 10.0.0.10-10.0.0.50/24   # one of them for each claim that requests none

The range of addresses belongs to this driver on this node alone. The parameters of a claim are the supported fields of
dranet's NetworkConfig:

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
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

import msgspec

from cathedra.api.nulls import convert
from cathedra.driver import ConfigError

_WORD: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
WITH_PARENT: Final = ("macvlan", "ipvlan")


class VirtualLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Interfaces of a kind that are made for claims."""

    name: str
    kind: Literal["macvlan", "ipvlan", "veth", "dummy"]
    parent: str = ""
    addresses: str = ""
    """Range of addresses of this node; "": interfaces have only the addresses that claims request."""

    def __post_init__(self) -> None:
        if self.addresses:
            read_range(self.addresses)
        if not _WORD.fullmatch(self.name):
            raise ValueError(f"name {self.name!r} must be of lower case letters, digits and '-'")
        if bool(self.parent) != (self.kind in WITH_PARENT):
            raise ValueError(f"{self.name}: {self.kind} {'has no parent' if self.parent else 'needs a parent'}")


class NetDriverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as a whole."""

    driver: str = "dra.net"
    interfaces: tuple[str, ...] = ("*",)
    virtual: tuple[VirtualLink, ...] = ()


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def read_range(text: str) -> tuple[_Address, _Address, int]:
    """Return first and last address, and the length of the prefix, of ``10.0.0.10-10.0.0.50/24``.

    Raises:
        ValueError: it is no such range, or leaves its network.
    """
    first, dash, rest = text.partition("-")
    last, slash, length = rest.partition("/")
    if not dash or not slash:
        raise ValueError(f"addresses {text!r} must be like 10.0.0.10-10.0.0.50/24")
    begin, end = ipaddress.ip_interface(f"{first}/{length}"), ipaddress.ip_interface(f"{last}/{length}")
    if begin.network != end.network or int(begin.ip) > int(end.ip):
        raise ValueError(f"addresses {text!r} must be of one network, the lower one first")
    return begin.ip, end.ip, begin.network.prefixlen


def free_address(text: str, taken: Collection[str]) -> str | None:
    """Return the lowest address of the range that is not taken, with its prefix; None if all are."""
    first, last, length = read_range(text)
    for number in range(int(first), int(last) + 1):
        address = f"{type(first)(number)}/{length}"
        if address not in taken:
            return address
    return None


LONGEST_NAME: Final = 15
_NAME: Final = re.compile(r"[^\s/:]+")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


class InterfaceParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the interface itself."""

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
    """Return the parameters of a claim; ``apiVersion`` and ``kind`` are optional.

    Raises:
        ConfigError: a field is not supported, or an address is invalid.
    """
    fields = {key: value for key, value in values.items() if key not in ("apiVersion", "kind")}
    try:
        return convert(fields, NetworkParameters)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"network parameters: {error}") from error
