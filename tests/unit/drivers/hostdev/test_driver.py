"""Device nodes are published, given to containers, and missed when they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.driver import Health
from cathedra.driver.kit import Kit, KitError, check_driver
from cathedra.drivers.hostdev import HostDevices
from tests.unit.drivers.hostdev.machine import Machine

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
