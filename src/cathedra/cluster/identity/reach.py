"""Addresses of the API server: where it listens, what is advertised, and accepted client certificates.

By default it listens on the loopback, for this machine alone. ``--bind-address`` changes that; clients connect to
``--advertise-address``, by default the bind address, or the machine's address on its network.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path
from typing import Final

import msgspec

from cathedra.cluster import InvalidOption

LOOPBACK: Final = "127.0.0.1"
_ELSEWHERE: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of no machine (RFC 5737 and 3849): the way there is the default route. Nothing is sent."""
_HOST_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", re.ASCII)


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a server beyond its own machine."""

    bind_address: str = LOOPBACK
    advertise_address: str = ""
    """Address for clients; "": derived from ``bind_address``."""
    names: tuple[str, ...] = ()
    """More names and addresses for the server's certificate."""
    client_authority: Path | None = None
    """PEM file of further authorities of client certificates."""

    def __post_init__(self) -> None:
        bound = _address("--bind-address", self.bind_address)
        if self.advertise_address:
            advertised = _address("--advertise-address", self.advertise_address)
            if advertised.is_unspecified:
                raise InvalidOption(f"--advertise-address must be an address to connect to, got {advertised}")
            if bound.is_loopback and not advertised.is_loopback:
                raise InvalidOption(
                    f"--advertise-address {advertised}: nothing would listen there; add --bind-address {advertised}, "
                    "or --bind-address 0.0.0.0"
                )
        for name in self.names:
            if not _is_address(name) and not _HOST_NAME.fullmatch(name):
                raise InvalidOption(f"--tls-san {name!r} is neither a host name nor an IP address")
        if self.client_authority is not None and not self.client_authority.is_file():
            raise InvalidOption(f"--client-ca-file: there is no file {self.client_authority}")

    @property
    def advertised(self) -> str:
        """The address for clients."""
        if self.advertise_address:
            return self.advertise_address
        bound = ipaddress.ip_address(self.bind_address)
        return own_address(bound.version) if bound.is_unspecified else self.bind_address

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """Return the hosts of the server's certificate, beside its names in the cluster."""
        bound = () if ipaddress.ip_address(self.bind_address).is_unspecified else (self.bind_address,)
        return tuple(dict.fromkeys((*bound, self.advertised, "localhost", LOOPBACK, *self.names)))


def own_address(version: int = 4) -> str:
    """Return this machine's address on its network, from its routes; the loopback without a network."""
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_ELSEWHERE[family], 9))
        except OSError:
            return "::1" if version == 6 else LOOPBACK
        found: str = probe.getsockname()[0]
        return found


def _address(option: str, text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise InvalidOption(f"{option} must be an IP address, got {text!r}") from error


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
