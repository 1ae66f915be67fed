"""Standard attributes of a device's position in the machine, equal for all drivers.

If two drivers publish the PCIe root of their devices, a claim can request a GPU and a network card that are close to
each other. The values must therefore be computed in the same way (docs/spec/driver-sdk.md §13). Everything is read
below ``sysfs``, which tests can replace.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Final

from cathedra.driver.errors import DriverError

SYSFS: Final = Path("/sys")
_BUS_ID: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")


class AttributeUnknown(DriverError):
    """The machine does not provide the attribute. The text names what is missing."""


def pci_bus_id(address: str) -> dict[str, str]:
    """``resource.kubernetes.io/pciBusID`` of a PCI device, as in ``0000:3b:00.0``.

    Raises:
        AttributeUnknown: that is no PCI address with domain, bus, device and function.
    """
    return {"resource.kubernetes.io/pciBusID": _bus_id(address)}


def _bus_id(address: str) -> str:
    found = address.strip().lower()
    if not _BUS_ID.fullmatch(found):
        raise AttributeUnknown(f"invalid PCI bus ID {address!r}: must be like 0000:3b:00.0")
    return found


def pcie_root(address: str, *, sysfs: Path = SYSFS) -> dict[str, str]:
    """``resource.kubernetes.io/pcieRoot`` of a PCI device: its root complex, as in ``pci0000:3a``.

    Raises: AttributeUnknown: there is no such device, or it has no root complex.
    """
    link = sysfs / "bus/pci/devices" / _bus_id(address)
    try:
        parts = link.resolve(strict=True).parts
    except OSError as error:
        raise AttributeUnknown(f"PCIe root of {address}: {error.strerror}: {link}") from error
    root = next((part for part in parts if _ROOT.fullmatch(part)), None)
    if root is None:
        raise AttributeUnknown(f"PCIe root of {address}: {link} leads to no root complex")
    return {"resource.kubernetes.io/pcieRoot": root}


def numa_node(address: str, *, sysfs: Path = SYSFS) -> dict[str, int]:
    """``resource.kubernetes.io/numaNode`` of a PCI device.

    Raises:
        AttributeUnknown: there is no such device, or it belongs to no node in particular.
    """
    path = sysfs / "bus/pci/devices" / _bus_id(address) / "numa_node"
    try:
        node = int(path.read_text())
    except (OSError, ValueError) as error:
        raise AttributeUnknown(f"NUMA node of {address}: {error}") from error
    if node < 0:
        raise AttributeUnknown(f"NUMA node of {address}: the machine reports {node}, which means none")
    return {"resource.kubernetes.io/numaNode": node}


def mdev_uuid(text: str) -> dict[str, str]:
    """``resource.kubernetes.io/mdevUUID`` of a mediated device, in lower case.

    Raises:
        AttributeUnknown: that is no UUID.
    """
    try:
        return {"resource.kubernetes.io/mdevUUID": str(uuid.UUID(text))}
    except ValueError as error:
        raise AttributeUnknown(f"invalid mdev UUID {text!r}") from error
