"""Addresses for interfaces that are made for claims: the next free one of a range that the configuration names.

Nothing else keeps account of the range: it belongs to this driver on this node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

__all__ = ["free_address", "read_range"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def read_range(text: str) -> tuple[_Address, _Address, int]:
    """First and last address, and the length of the prefix, of ``10.0.0.10-10.0.0.50/24``.

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
    """The lowest address of the range that is not taken, with its prefix; None if all are."""
    first, last, length = read_range(text)
    for number in range(int(first), int(last) + 1):
        address = f"{type(first)(number)}/{length}"
        if address not in taken:
            return address
    return None
