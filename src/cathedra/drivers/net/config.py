"""Which interfaces are offered.

interfaces: ["eth*", ens5]       # patterns; an interface that carries a default route is left out
virtual:                         # made anew for each claim
  - name: lan                    # the device net-lan
    kind: macvlan                # or ipvlan, veth, dummy
    parent: eth0                 # for macvlan and ipvlan
    addresses: 10.0.0.10-10.0.0.50/24   # one of them for each claim that asks for none
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from cathedra.drivers.net.addresses import read_range

__all__ = ["NetDriverConfig", "VirtualLink"]

_WORD: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
WITH_PARENT: Final = ("macvlan", "ipvlan")


class VirtualLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Interfaces of a kind that are made for claims."""

    name: str
    kind: Literal["macvlan", "ipvlan", "veth", "dummy"]
    parent: str = ""
    addresses: str = ""
    """A range of this node's own; "": interfaces have the addresses that claims ask for."""

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
