"""Device nodes are found by path and properties, and tell where they sit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cathedra.drivers.hostdev.config import DeviceRule
from cathedra.drivers.hostdev.discovery import find
from tests.unit.drivers.hostdev.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def test_nodes_are_found_by_pattern_and_tell_what_udev_and_pci_know(machine: Machine) -> None:
    machine.add(
        "/dev/ttyUSB0",
        "/dev/null",
        pci="0000:3b:00.0",
        udev={"ID_VENDOR": "FTDI", "ID_SERIAL_SHORT": "A1", "ID_BUS": "usb"},
        uevent="DRIVER=ftdi_sio\n",
    )
    (found,) = find([DeviceRule("serial", ["/dev/tty*"])], machine.root)
    assert (found.name, found.path) == ("serial-ttyusb0", "/dev/ttyUSB0")
    assert found.attributes == {
        "kind": "serial",
        "path": "/dev/ttyUSB0",
        "type": "char",
        "vendor": "FTDI",
        "serial": "A1",
        "kernelDriver": "ftdi_sio",
        "resource.kubernetes.io/pciBusID": "0000:3b:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:3a",
        "resource.kubernetes.io/numaNode": 1,
    }


def test_properties_choose_among_nodes(machine: Machine) -> None:
    machine.add("/dev/video0", "/dev/null", udev={"ID_MODEL": "Camera 5"})
    machine.add("/dev/video1", "/dev/zero", udev={"ID_MODEL": "Capture"})
    rule = DeviceRule("camera", ["/dev/video*"], udev={"ID_MODEL": "Camera*"}, attributes={"colour": True})
    assert [(one.path, one.attributes["colour"]) for one in find([rule], machine.root)] == [("/dev/video0", True)]


def test_a_node_belongs_to_the_first_rule_that_names_it(machine: Machine) -> None:
    machine.add("/dev/ttyS0", "/dev/null")
    rules = [DeviceRule("console", ["/dev/ttyS0"]), DeviceRule("serial", ["/dev/ttyS*"])]
    assert [one.name for one in find(rules, machine.root)] == ["console-ttys0"]


def test_what_is_no_device_is_left_out(machine: Machine) -> None:
    (machine.root / "dev/file").write_text("")
    (machine.root / "dev/gone").symlink_to("/nowhere")
    assert find([DeviceRule("any", ["/dev/*"])], machine.root) == []


def test_paths_that_differ_in_case_alone_have_different_names(machine: Machine) -> None:
    machine.add("/dev/ttyA", "/dev/null")
    machine.add("/dev/ttya", "/dev/zero")
    names = [one.name for one in find([DeviceRule("serial", ["/dev/tty*"])], machine.root)]
    assert len(set(names)) == 2
    assert all(name.startswith("serial-ttya") for name in names)


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="this machine has no /dev/null")
def test_this_machine_has_what_every_machine_has() -> None:
    found = {one.path: one for one in find([DeviceRule("memory", ["/dev/null", "/dev/zero"])])}
    assert found.keys() == {"/dev/null", "/dev/zero"}
    assert found["/dev/null"].attributes["type"] == "char"
