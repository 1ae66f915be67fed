"""Interfaces are made ready on the host, remembered, and given back."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from cathedra.cdi.spec import ContainerEdits
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver import OptionError
from cathedra.driver.kit import Kit, KitError, check_driver
from cathedra.drivers.net import NetDriver
from cathedra.drivers.net.driver import REPORT_SOCKET, receiving_reports
from tests.running import beside
from tests.unit.drivers.net.kernel import MAC, FakeIp, told_data

CONFIG = """
interfaces: [eth*]
virtual:
  - {name: lan, kind: macvlan, parent: eth0}
  - {name: pair, kind: veth}
"""
PARAMETERS = {"interface": {"name": "data", "addresses": ["10.5.0.2/24"], "mtu": 1400}}


def plan(edits: ContainerEdits) -> dict[str, Any]:
    """Return the arguments of the hook of a container."""
    (hook,) = edits.hooks
    assert hook.hook_name == "createRuntime"
    assert hook.args[1:3] == ("-m", "cathedra.drivers.hooks.netns")
    found: dict[str, Any] = json.loads(hook.args[3])
    return found


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "net.yaml"
    file.write_text(CONFIG)
    return file


async def test_an_interface_of_the_host_is_moved_with_what_the_claim_asks_for(config: Path) -> None:
    ip = FakeIp("eth1")
    async with Kit(lambda: NetDriver(config, ip=ip)) as kit:
        claim = await kit.claim("net-eth1", config=PARAMETERS)
        told = plan(kit.edits(await kit.prepare(claim)))
        assert (told["link"], told["name"], told["addresses"], told["mtu"]) == ("eth1", "data", ["10.5.0.2/24"], 1400)
        assert ip.calls == []
        # Whether the pod has a network of its own is not known yet.
        assert (await kit.client.resource(RESOURCECLAIMS, "default").get(claim.name)).status.devices == ()


async def test_an_interface_of_the_host_comes_back_with_what_it_had(config: Path) -> None:
    ip = FakeIp("eth1")
    async with Kit(lambda: NetDriver(config, ip=ip)) as kit:
        claim = await kit.claim("net-eth1", config=PARAMETERS)
        namespace = plan(kit.edits(await kit.prepare(claim)))["namespace"]
        ip.present[namespace] = {}
        await kit.restart()
        ip.calls.clear()
        await kit.unprepare(claim)
        assert next(call for call in ip.calls if "netns" in call).startswith(f"[{namespace}] link set dev data netns ")
        assert f"link set dev eth1 address {MAC} mtu 1500" in ip.calls
        assert "address replace 10.1.0.7/24 dev eth1" in ip.calls
        assert "link set dev eth1 up" in ip.calls
        assert "route replace 10.9.0.0/16 via 10.1.0.1 dev eth1" in ip.calls
        assert ip.calls[-1] == f"netns delete {namespace}"


async def test_an_interface_is_made_for_each_claim_and_removed(config: Path) -> None:
    ip = FakeIp("eth0")
    async with Kit(lambda: NetDriver(config, ip=ip)) as kit:
        claims = [await kit.allocate('device.attributes["dra.net"].type == "macvlan"') for _ in range(2)]
        links = [plan(kit.edits(await kit.prepare(claim)))["link"] for claim in claims]
        assert len(set(links)) == 2
        assert ip.calls[0] == f"link add link eth0 name {links[0]} type macvlan mode bridge"
        assert all(len(link) <= 15 for link in links)
        for claim in claims:
            await kit.unprepare(claim)
        assert set(links).isdisjoint(ip.present)


async def test_a_pair_has_one_end_up_on_the_host(config: Path) -> None:
    ip = FakeIp()
    async with Kit(lambda: NetDriver(config, ip=ip)) as kit:
        claim = await kit.allocate('device.attributes["dra.net"].type == "veth"')
        link = plan(kit.edits(await kit.prepare(claim)))["link"]
        peer = link.replace("nd", "nh", 1)
        assert ip.calls == [f"link add name {link} type veth peer name {peer}", f"link set dev {peer} up"]


async def test_a_device_stays_published_while_its_interface_is_in_a_container(config: Path) -> None:
    ip = FakeIp("eth1")
    async with Kit(lambda: NetDriver(config, ip=ip)) as kit:
        await kit.prepare(await kit.claim("net-eth1"))
        del ip.present["eth1"]
        driver = kit.driver
        assert isinstance(driver, NetDriver)
        assert "net-eth1" in [device.name for device in await driver.devices()]


async def test_an_interface_that_is_not_there_fails_the_claim(config: Path) -> None:
    ip = FakeIp("eth1")
    async with Kit(lambda: NetDriver(config, ip=ip)) as kit:
        claim = await kit.claim("net-eth1")
        del ip.present["eth1"]
        with pytest.raises(KitError, match="there is no interface of the host that is net-eth1"):
            await kit.prepare(claim)


async def test_a_range_that_is_used_up_fails_the_claim_until_one_is_free_again(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("virtual: [{name: pair, kind: veth, addresses: 10.0.0.2-10.0.0.2/24}]")
    async with Kit(lambda: NetDriver(tmp_path / "net.yaml", ip=FakeIp())) as kit:
        first, second = [await kit.allocate('device.attributes["dra.net"].type == "veth"') for _ in range(2)]
        await kit.prepare(first)
        await kit.restart()
        with pytest.raises(KitError, match=r"every address of 10\.0\.0\.2-10\.0\.0\.2/24 is taken"):
            await kit.prepare(second)
        await kit.unprepare(first)
        assert plan(kit.edits(await kit.prepare(second)))["addresses"] == ["10.0.0.2/24"]


def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    for text, problem in (
        ("virtual: [{name: lan, kind: macvlan}]", "macvlan needs a parent"),
        ("virtual: [{name: pair, kind: veth, parent: eth0}]", "veth has no parent"),
        ("virtual: [{name: Lan, kind: dummy}]", "name 'Lan' must be of lower case"),
        ("virtual: [{name: lan, kind: dummy, addresses: 10.0.0.1}]", "must be like 10.0.0.10-10.0.0.50/24"),
    ):
        file.write_text(text)
        with pytest.raises(OptionError, match=problem):
            NetDriver(file)


async def test_the_driver_keeps_the_contract(config: Path) -> None:
    verdicts = await check_driver(lambda: NetDriver(config, ip=FakeIp("eth1")))
    assert [(one.check.name, one.reason) for one in verdicts if one.outcome == "failed"] == []


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
        async with beside(driver.background(kit.client, tmp_path)):
            async with asyncio.timeout(120):
                report = {"namespace": plans[0]["namespace"], "name": "net0", "mac": MAC, "addresses": ["10.0.0.2/24"]}
                await asyncio.to_thread(send, tmp_path, json.dumps(report).encode())
                data = await told_data(kit, claims[0])
            assert (data.interface_name, data.ips, data.hardware_address) == ("net0", ("10.0.0.2/24",), MAC)
            assert await network_data(kit, claims[1]) is None


async def test_what_was_moved_while_no_driver_ran_is_told_at_the_start(tmp_path: Path) -> None:
    ip = FakeIp("eth1")
    async with Kit(lambda: NetDriver(ip=ip)) as kit:
        claim = await kit.claim("net-eth1")
        namespace = plan(kit.edits(await kit.prepare(claim)))["namespace"]
        ip.present[namespace] = ip.present["eth1"]
        await kit.restart()
        driver: Any = kit.driver
        async with beside(driver.background(kit.client, tmp_path)):
            async with asyncio.timeout(120):
                data = await told_data(kit, claim)
            assert (data.interface_name, data.ips) == ("eth1", ("10.1.0.7/24",))
