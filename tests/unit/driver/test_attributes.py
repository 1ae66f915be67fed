"""The position of a device in the machine, by attributes that all drivers share (docs/spec/driver-sdk.md §13)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cathedra.driver.attributes import AttributeUnknown, mdev_uuid, numa_node, pci_bus_id, pcie_root

GPU = "0000:3b:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A machine with one device behind a bridge, and one that is on no root complex."""
    device = tmp_path / "devices/pci0000:3a/0000:3a:00.0" / GPU
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    rootless = tmp_path / "devices/virtual/0000:00:00.0"
    rootless.mkdir(parents=True)
    (rootless / "numa_node").write_text("-1\n")
    links = tmp_path / "bus/pci/devices"
    links.mkdir(parents=True)
    (links / GPU).symlink_to(device)
    (links / rootless.name).symlink_to(rootless)
    return tmp_path


def test_the_root_complex_is_found_behind_bridges(sysfs: Path) -> None:
    assert pcie_root("0000:3B:00.0", sysfs=sysfs) == {"resource.kubernetes.io/pcieRoot": "pci0000:3a"}


def test_the_numa_node_is_a_number(sysfs: Path) -> None:
    assert numa_node(GPU, sysfs=sysfs) == {"resource.kubernetes.io/numaNode": 1}


@pytest.mark.parametrize("ask", [pcie_root, numa_node])
@pytest.mark.parametrize("address", ["0000:00:00.0", "0000:ff:00.0"])
def test_what_the_machine_does_not_say_is_an_error(sysfs: Path, ask: Callable[..., Any], address: str) -> None:
    with pytest.raises(AttributeUnknown):
        ask(address, sysfs=sysfs)


def test_names_are_in_lower_case() -> None:
    assert pci_bus_id("0000:3B:00.F") == {"resource.kubernetes.io/pciBusID": "0000:3b:00.f"}
    text = "83B8F4F2-509F-382F-3C1E-E6BFE0FA1001"
    assert mdev_uuid(text) == {"resource.kubernetes.io/mdevUUID": text.lower()}


@pytest.mark.parametrize("address", ["3b:00.0", "0000:3b:00", "", "0000:3b:00.0/../x"])
def test_nonsense_is_no_address(address: str) -> None:
    with pytest.raises(AttributeUnknown):
        pci_bus_id(address)


def test_nonsense_is_no_uuid() -> None:
    with pytest.raises(AttributeUnknown):
        mdev_uuid("mine")
