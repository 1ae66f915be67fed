"""The interfaces of the machine as devices, with the attributes that dranet gives them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cathedra.driver import Device
from cathedra.driver.attributes import AttributeUnknown, numa_node, pci_bus_id, pcie_root
from cathedra.driver.device import AttributeValue
from cathedra.drivers.net.config import NetDriverConfig, VirtualLink

DOMAIN: Final = "dra.net"
"""The domain of dranet's attributes, independent of this driver's name."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 64


def device_name(link: str) -> str:
    """Return the device of an interface."""
    return f"net-{_NOT_IN_NAMES.sub('-', link.lower()).strip('-')}"


def host_devices(
    config: NetDriverConfig, links: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]], sysfs: Path
) -> dict[str, tuple[str, Device]]:
    """Return interface and device by name, for the interfaces that are offered as they are.

    Left out are the loopback, interfaces that carry a default route (the node would be cut off), and parts of others
    (bridge ports, members of a bond).
    """
    carrying = {route.get("dev") for route in routes if route.get("dst") == "default"}
    found: dict[str, tuple[str, Device]] = {}
    for link in links:
        name = str(link["ifname"])
        if "LOOPBACK" in link.get("flags", ()) or name in carrying or link.get("master"):
            continue
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in config.interfaces):
            continue
        device = Device(device_name(name), attributes=_attributes(link, sysfs))
        found.setdefault(device.name, (name, device))
    return found


def virtual_device(link: VirtualLink) -> Device:
    """Return the device that represents interfaces created for claims."""
    attributes: dict[str, AttributeValue] = {
        f"{DOMAIN}/type": link.kind,
        f"{DOMAIN}/virtual": True,
        **({f"{DOMAIN}/parent": link.parent} if link.parent else {}),
    }
    return Device(device_name(link.name), attributes=attributes, multiple_allocations=True)


def _attributes(link: Mapping[str, Any], sysfs: Path) -> dict[str, AttributeValue]:
    name = str(link["ifname"])
    attributes: dict[str, AttributeValue] = {
        "ifName": name,
        "mac": str(link.get("address", "")),
        "mtu": int(link.get("mtu", 0)),
        "state": str(link.get("operstate", "UNKNOWN")).lower(),
        "encapsulation": str(link.get("link_type", "")),
        "type": str(link.get("linkinfo", {}).get("info_kind", "device")),
        "alias": str(link.get("ifalias", ""))[:_LONGEST],
    }
    for family, key in (("inet", "ipv4"), ("inet6", "ipv6")):
        addresses = [
            f"{one['local']}/{one['prefixlen']}"
            for one in link.get("addr_info", ())
            if one.get("family") == family and one.get("scope") != "link"
        ]
        if addresses:
            attributes[key] = addresses[0]
    place = (sysfs / "class/net" / name / "device").resolve()
    virtual = not (sysfs / "class/net" / name / "device").exists()
    attributes |= {"virtual": virtual, "rdma": (place / "infiniband").is_dir(), **_functions(place)}
    qualified = {f"{DOMAIN}/{key}": value for key, value in attributes.items() if value != ""}
    return {**qualified, **({} if virtual else _on_pci(place.name, sysfs))}


def _functions(place: Path) -> dict[str, AttributeValue]:
    """Return the number of virtual functions that the card supports."""
    try:
        total = int((place / "sriov_totalvfs").read_text())
    except (OSError, ValueError):
        return {"sriov": False}
    return {"sriov": total > 0, "sriovVfs": total}


def _on_pci(address: str, sysfs: Path) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    try:
        attributes.update(pci_bus_id(address))
        attributes[f"{DOMAIN}/pciAddress"] = address
        attributes.update(pcie_root(address, sysfs=sysfs))
        numa = numa_node(address, sysfs=sysfs)
    except AttributeUnknown:
        return attributes  # on another bus, or not available
    return {**attributes, **numa, f"{DOMAIN}/numaNode": next(iter(numa.values()))}
