"""Interfaces of the machine, as devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cathedra.drivers.net.config import NetDriverConfig, VirtualLink
from cathedra.drivers.net.inventory import host_devices, virtual_device

LO = {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "link_type": "loopback"}
ETH0 = {"ifname": "eth0", "flags": ["UP"], "link_type": "ether"}
ETH1 = {
    "ifname": "eth1",
    "flags": ["BROADCAST", "UP"],
    "link_type": "ether",
    "address": "02:00:00:00:00:07",
    "mtu": 1500,
    "operstate": "UP",
    "ifalias": "storage",
    "addr_info": [
        {"family": "inet", "local": "10.1.0.7", "prefixlen": 24, "scope": "global"},
        {"family": "inet6", "local": "fe80::7", "prefixlen": 64, "scope": "link"},
    ],
}
PORT = {"ifname": "eth2", "flags": ["UP"], "master": "br0"}
ROUTES = [{"dst": "default", "dev": "eth0"}, {"dst": "10.1.0.0/24", "dev": "eth1"}]


def on_pci(sysfs: Path, link: str, address: str) -> Path:
    """A card on the PCI bus, in NUMA node 1, with eight virtual functions."""
    place = sysfs / "devices/pci0000:3a" / address
    (place / "infiniband").mkdir(parents=True)
    (place / "numa_node").write_text("1")
    (place / "sriov_totalvfs").write_text("8")
    for folder, name in (("bus/pci/devices", address), (f"class/net/{link}", "device")):
        (sysfs / folder).mkdir(parents=True, exist_ok=True)
        (sysfs / folder / name).symlink_to(place)
    return sysfs


def names(config: NetDriverConfig, links: list[dict[str, Any]], sysfs: Path) -> list[str]:
    return [link for link, _ in host_devices(config, links, ROUTES, sysfs).values()]


def test_what_the_node_needs_itself_is_not_offered(tmp_path: Path) -> None:
    assert names(NetDriverConfig(), [LO, ETH0, ETH1, PORT], tmp_path) == ["eth1"]
    assert names(NetDriverConfig(interfaces=("ens*",)), [LO, ETH0, ETH1, PORT], tmp_path) == []


def test_attributes_are_those_of_dranet(tmp_path: Path) -> None:
    sysfs = on_pci(tmp_path, "eth1", "0000:3b:00.0")
    ((_, device),) = host_devices(NetDriverConfig(), [ETH1], ROUTES, sysfs).values()
    assert device.name == "net-eth1"
    assert device.attributes == {
        "dra.net/ifName": "eth1",
        "dra.net/mac": "02:00:00:00:00:07",
        "dra.net/mtu": 1500,
        "dra.net/state": "up",
        "dra.net/encapsulation": "ether",
        "dra.net/type": "device",
        "dra.net/alias": "storage",
        "dra.net/ipv4": "10.1.0.7/24",
        "dra.net/virtual": False,
        "dra.net/rdma": True,
        "dra.net/sriov": True,
        "dra.net/sriovVfs": 8,
        "dra.net/pciAddress": "0000:3b:00.0",
        "dra.net/numaNode": 1,
        "resource.kubernetes.io/pciBusID": "0000:3b:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:3a",
        "resource.kubernetes.io/numaNode": 1,
    }


def test_an_interface_that_is_made_can_be_made_for_many() -> None:
    device = virtual_device(VirtualLink("lan", "macvlan", "eth0"))
    assert (device.name, device.multiple_allocations) == ("net-lan", True)
    assert device.attributes == {
        "dra.net/type": "macvlan",
        "dra.net/virtual": True,
        "dra.net/parent": "eth0",
    }
