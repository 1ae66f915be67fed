"""Device nodes are published, given to containers, and missed when they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cathedra.driver import Health, OptionError
from cathedra.driver.kit import Kit, KitError, check_driver
from cathedra.drivers.hostdev import DeviceRule, HostDevices, find
from tests.unit.drivers.hostdev_machine import Machine

CONFIG = """
driver: nodes.example.com
devices:
  - kind: serial
    paths: [/dev/ttyS*]
  - kind: fuse
    paths: [/dev/fuse]
    permissions: rwm
    shared: true
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "root")
    machine.add("/dev/ttyS0", "/dev/null")
    machine.add("/dev/fuse", "/dev/zero")
    (tmp_path / "devices.yaml").write_text(CONFIG)
    return machine


def driver(machine: Machine) -> HostDevices:
    return HostDevices(machine.root.parent / "devices.yaml", root=machine.root)


async def test_a_container_gets_the_node_that_it_claims(machine: Machine) -> None:
    async with Kit(lambda: driver(machine)) as kit:
        claim = await kit.allocate('device.attributes["nodes.example.com"].kind == "serial"')
        edits = kit.edits(await kit.prepare(claim))
        assert [(node.path, node.permissions) for node in edits.device_nodes] == [("/dev/ttyS0", "rw")]
        assert edits.env == ("HOSTDEV_SERIAL_TTYS0=/dev/ttyS0",)
        await kit.unprepare(claim)


async def test_only_a_shared_node_is_given_to_many(machine: Machine) -> None:
    async with Kit(lambda: driver(machine)) as kit:
        fuse = 'device.attributes["nodes.example.com"].kind == "fuse"'
        for _ in range(3):
            await kit.prepare(await kit.allocate(fuse))
        serial = 'device.attributes["nodes.example.com"].kind == "serial"'
        await kit.allocate(serial)
        with pytest.raises(KitError):
            await kit.allocate(serial)


async def test_a_node_that_has_gone_is_not_given(machine: Machine) -> None:
    async with Kit(lambda: driver(machine)) as kit:
        claim = await kit.claim("serial-ttys0")
        machine.remove("/dev/ttyS0")
        with pytest.raises(KitError, match="the device node of serial-ttys0 is not there"):
            await kit.prepare(claim)


async def test_a_node_that_has_gone_leaves_the_slice_and_is_unhealthy(machine: Machine) -> None:
    made = driver(machine)
    made.install("node-a", lambda: None)
    assert [device.name for device in made.devices()] == ["serial-ttys0", "fuse-fuse"]
    health = made.health()
    assert {report.state for report in await anext(health)} == {Health.HEALTHY}
    machine.remove("/dev/ttyS0")
    assert [device.name for device in made.devices()] == ["fuse-fuse"]
    told = {report.device: (report.state, report.message) for report in await anext(health)}
    assert told["serial-ttys0"] == (Health.UNHEALTHY, "/dev/ttyS0 has gone")
    assert told["fuse-fuse"] == (Health.HEALTHY, "")


async def test_the_driver_keeps_the_contract(machine: Machine) -> None:
    verdicts = await check_driver(lambda: driver(machine))
    assert [(one.check.name, one.reason) for one in verdicts if one.outcome == "failed"] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("devices: [{kind: Serial, paths: [/dev/x]}]", "kind 'Serial' must be a word of lower case"),
        ("devices: [{kind: serial, paths: [dev/x]}]", "paths of serial must be absolute"),
        ("devices: [{kind: serial, paths: [/dev/x], permissions: wr}]", "must be letters of rwm in this order"),
        ("devices: [{kind: serial, path: /dev/x}]", "unknown field `path`"),
        ("device: []", "unknown field `device`"),
        ("devices: [", "line"),
    ],
)
def test_what_it_cannot_mean_is_said_with_the_name_of_the_file(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(text)
    with pytest.raises(OptionError) as refused:
        HostDevices(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert problem in str(refused.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file or directory"):
        HostDevices(tmp_path / "devices.yaml")


@pytest.fixture
def machine_with_nodes(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def test_nodes_are_found_by_pattern_and_tell_what_udev_and_pci_know(machine_with_nodes: Machine) -> None:
    machine_with_nodes.add(
        "/dev/ttyUSB0",
        "/dev/null",
        pci="0000:3b:00.0",
        udev={"ID_VENDOR": "FTDI", "ID_SERIAL_SHORT": "A1", "ID_BUS": "usb"},
        uevent="DRIVER=ftdi_sio\n",
    )
    (found,) = find([DeviceRule("serial", ["/dev/tty*"])], machine_with_nodes.root)
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


def test_properties_choose_among_nodes(machine_with_nodes: Machine) -> None:
    machine_with_nodes.add("/dev/video0", "/dev/null", udev={"ID_MODEL": "Camera 5"})
    machine_with_nodes.add("/dev/video1", "/dev/zero", udev={"ID_MODEL": "Capture"})
    rule = DeviceRule("camera", ["/dev/video*"], udev={"ID_MODEL": "Camera*"}, attributes={"colour": True})
    assert [(one.path, one.attributes["colour"]) for one in find([rule], machine_with_nodes.root)] == [
        ("/dev/video0", True)
    ]


def test_a_node_belongs_to_the_first_rule_that_names_it(machine_with_nodes: Machine) -> None:
    machine_with_nodes.add("/dev/ttyS0", "/dev/null")
    rules = [DeviceRule("console", ["/dev/ttyS0"]), DeviceRule("serial", ["/dev/ttyS*"])]
    assert [one.name for one in find(rules, machine_with_nodes.root)] == ["console-ttys0"]


def test_what_is_no_device_is_left_out(machine_with_nodes: Machine) -> None:
    (machine_with_nodes.root / "dev/file").write_text("")
    (machine_with_nodes.root / "dev/gone").symlink_to("/nowhere")
    assert find([DeviceRule("any", ["/dev/*"])], machine_with_nodes.root) == []


def test_paths_that_differ_in_case_alone_have_different_names(machine_with_nodes: Machine) -> None:
    machine_with_nodes.add("/dev/ttyA", "/dev/null")
    machine_with_nodes.add("/dev/ttya", "/dev/zero")
    names = [one.name for one in find([DeviceRule("serial", ["/dev/tty*"])], machine_with_nodes.root)]
    assert len(set(names)) == 2
    assert all(name.startswith("serial-ttya") for name in names)


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="this machine has no /dev/null")
def test_this_machine_has_what_every_machine_has() -> None:
    found = {one.path: one for one in find([DeviceRule("memory", ["/dev/null", "/dev/zero"])])}
    assert found.keys() == {"/dev/null", "/dev/zero"}
    assert found["/dev/null"].attributes["type"] == "char"
