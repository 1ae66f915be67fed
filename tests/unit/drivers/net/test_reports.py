"""The status of a claim tells of an interface that is in the network of its pod, and of no other."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver.kit import Kit
from cathedra.drivers.net import NetDriver
from cathedra.drivers.net.reports import REPORT_SOCKET, receiving_reports
from tests.unit.drivers.net.kernel import MAC, FakeIp, told_data
from tests.unit.drivers.net.test_driver import plan


async def network_data(kit: Kit, claim: Any) -> Any:
    found = await kit.client.resource(RESOURCECLAIMS, "default").get(claim.name)
    return found.status.devices[0].network_data if found.status.devices else None


def send(directory: Path, message: bytes) -> None:
    """As the hook does, but not before the driver listens."""
    while not (directory / REPORT_SOCKET).exists():
        time.sleep(0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling:
        telling.sendto(message, str(directory / REPORT_SOCKET))


async def test_what_is_no_report_is_passed_over(tmp_path: Path) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    async with receiving_reports(tmp_path, heard.put_nowait):
        assert (tmp_path / REPORT_SOCKET).stat().st_mode & 0o777 == 0o600
        for message in (b"", b"[]", b'{"namespace": 1}', b'{"namespace": "n", "name": "eth1"}'):
            send(tmp_path, message)
        assert (await heard.get()).name == "eth1"
        assert heard.empty()
    assert not (tmp_path / REPORT_SOCKET).exists()


async def test_the_status_has_addresses_once_the_interface_is_moved(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(
        "virtual: [{name: lan, kind: macvlan, parent: eth0, addresses: 10.0.0.2-10.0.0.3/24}]"
    )
    ip = FakeIp("eth0")
    async with Kit(lambda: NetDriver(tmp_path / "net.yaml", ip=ip)) as kit:
        driver: Any = kit.driver
        claims = [await kit.allocate('device.attributes["dra.net"].type == "macvlan"') for _ in range(2)]
        plans = [plan(kit.edits(await kit.prepare(claim))) for claim in claims]
        assert [one["addresses"] for one in plans] == [["10.0.0.2/24"], ["10.0.0.3/24"]]
        assert await network_data(kit, claims[0]) is None
        background = asyncio.ensure_future(driver.background(kit.client, tmp_path))
        async with asyncio.timeout(120):
            report = {"namespace": plans[0]["namespace"], "name": "net0", "mac": MAC, "addresses": ["10.0.0.2/24"]}
            await asyncio.to_thread(send, tmp_path, json.dumps(report).encode())
            data = await told_data(kit, claims[0])
        assert (data.interface_name, data.ips, data.hardware_address) == ("net0", ("10.0.0.2/24",), MAC)
        assert await network_data(kit, claims[1]) is None
        background.cancel()
        await asyncio.wait((background,))


async def test_what_was_moved_while_no_driver_ran_is_told_at_the_start(tmp_path: Path) -> None:
    ip = FakeIp("eth1")
    async with Kit(lambda: NetDriver(ip=ip)) as kit:
        claim = await kit.claim("net-eth1")
        namespace = plan(kit.edits(await kit.prepare(claim)))["namespace"]
        ip.present[namespace] = ip.present["eth1"]
        await kit.restart()
        driver: Any = kit.driver
        background = asyncio.ensure_future(driver.background(kit.client, tmp_path))
        async with asyncio.timeout(120):
            data = await told_data(kit, claim)
        assert (data.interface_name, data.ips) == ("eth1", ("10.1.0.7/24",))
        background.cancel()
        await asyncio.wait((background,))
