"""An interface moves into the network namespace of a container, and back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cathedra.driver.kit import Kit
from cathedra.drivers.hooks.netns import InterfacePlan, attach
from cathedra.drivers.hooks.state import ContainerState, HookError
from cathedra.drivers.net import NetDriver
from tests.running import beside
from tests.unit.drivers.net.kernel import told_data, why_not_real

PARAMETERS = {
    "interface": {"name": "data", "addresses": ["10.213.0.2/24"], "mtu": 1400, "hardwareAddr": "02:00:00:00:00:05"},
    "routes": [{"destination": "10.214.0.0/16", "gateway": "10.213.0.1"}],
}


def test_a_plan_survives_the_command_line() -> None:
    plan = InterfacePlan("eth1", "data", "dra-1", ("10.0.0.1/24",), ({"destination": "10.1.0.0/16"},), 1400, "02:00")
    assert InterfacePlan.parse(plan.to_json()) == plan


@pytest.mark.parametrize("text", ["", "{}", '{"link": 1}', "[]"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(HookError, match="no plan"):
        InterfacePlan.parse(text)


def test_a_container_in_the_hosts_network_keeps_it() -> None:
    plan = InterfacePlan("nowhere0", "data", "dra-none")
    assert attach(ContainerState(os.getpid(), Path()), plan) is False


@contextmanager
def container() -> Iterator[int]:
    """A process in a network namespace of its own."""
    # It prints a line when it runs, so that nothing is moved earlier.
    code = "import ctypes; ctypes.CDLL(None).unshare(0x40000000); print(1, flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


def remove(link: str) -> None:
    """Remove an interface if it is there."""
    subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)


def run_hook(args: tuple[str, ...], pid: int) -> None:
    """As a runtime does: the state on the standard input."""
    subprocess.run([*args], input=json.dumps({"pid": pid}), text=True, check=True)


@pytest.mark.skipif(bool(why_not_real()), reason=why_not_real() or "it can")
async def test_a_real_interface_gets_addresses_and_routes_and_comes_back(tmp_path: Path) -> None:
    host, peer = f"ca{os.getpid()}", f"cb{os.getpid()}"
    ip("link", "add", host, "type", "veth", "peer", "name", peer)
    try:
        ip("address", "add", "10.212.0.1/24", "dev", host)
        ip("link", "set", "dev", host, "up")
        before = json.loads(ip("-json", "address", "show", "dev", host))[0]
        (tmp_path / "net.yaml").write_text(f"interfaces: [{host}]\n")
        async with Kit(lambda: NetDriver(tmp_path / "net.yaml")) as kit:
            claim = await kit.claim(f"net-{host}", config=PARAMETERS)
            (hook,) = kit.edits(await kit.prepare(claim)).hooks
            with container() as pid:
                run_hook(hook.args, pid)
                run_hook(hook.args, pid)  # for the second container of the pod
                namespace = json.loads(hook.args[3])["namespace"]
                inside = json.loads(ip("-n", namespace, "-json", "address", "show", "dev", "data"))[0]
                assert (inside["address"], inside["mtu"]) == ("02:00:00:00:00:05", 1400)
                assert "10.213.0.2" in [one["local"] for one in inside["addr_info"]]
                routes = json.loads(ip("-n", namespace, "-json", "route", "show"))
                assert "10.214.0.0/16" in [route["dst"] for route in routes] or "10.214.0.0/16" in str(routes)
                assert host not in ip("link", "show")
                await kit.restart()
                await kit.unprepare(claim)
            after = json.loads(ip("-json", "address", "show", "dev", host))[0]
            assert (after["address"], after["mtu"]) == (before["address"], before["mtu"])
            assert [one["local"] for one in after["addr_info"] if one["scope"] == "global"] == ["10.212.0.1"]
            assert "UP" in after["flags"]
            assert namespace not in ip("netns", "list")
    finally:
        remove(host)


@pytest.mark.skipif(bool(why_not_real()), reason=why_not_real() or "it can")
async def test_a_real_pair_is_made_moved_and_removed(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("interfaces: []\nvirtual: [{name: pair, kind: veth}]\n")
    async with Kit(lambda: NetDriver(tmp_path / "net.yaml")) as kit:
        claim = await kit.allocate('device.attributes["dra.net"].type == "veth"')
        (hook,) = kit.edits(await kit.prepare(claim)).hooks
        plan = json.loads(hook.args[3])
        with container() as pid:
            run_hook(hook.args, pid)
            assert "net0" in ip("-n", plan["namespace"], "link", "show")
            await kit.unprepare(claim)
        assert plan["link"] not in ip("link", "show")
        assert plan["namespace"] not in ip("netns", "list")


def why_no_macvlan() -> str:
    """Return the reason why this kernel supports no macvlan interfaces; "" if it does."""
    if why_not_real():
        return why_not_real()
    parent = f"cm{os.getpid()}"
    ip("link", "add", parent, "type", "veth", "peer", "name", f"cn{os.getpid()}")
    words = ["ip", "link", "add", "link", parent, "name", f"co{os.getpid()}", "type", "macvlan"]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    remove(parent)
    return made.stderr.strip()


@pytest.mark.skipif(bool(why_no_macvlan()), reason=why_no_macvlan() or "it can")
async def test_a_real_macvlan_is_in_the_pods_network_and_its_status_tells_what_it_has_there(tmp_path: Path) -> None:
    parent, peer = f"cm{os.getpid()}", f"cn{os.getpid()}"
    ip("link", "add", parent, "type", "veth", "peer", "name", peer)
    config = tmp_path / "net.yaml"
    lan = f"{{name: lan, kind: macvlan, parent: {parent}, addresses: 10.215.0.2-10.215.0.9/24}}"
    config.write_text(f"interfaces: []\nvirtual: [{lan}]\n")
    try:
        async with Kit(lambda: NetDriver(config)) as kit:
            driver: Any = kit.driver
            driver.directory = tmp_path
            claim = await kit.allocate('device.attributes["dra.net"].type == "macvlan"')
            async with beside(driver.background(kit.client, tmp_path)):
                (hook,) = kit.edits(await kit.prepare(claim)).hooks
                with container() as pid:
                    await asyncio.to_thread(run_hook, hook.args, pid)
                    async with asyncio.timeout(120):
                        told = await told_data(kit, claim)
                    namespace = json.loads(hook.args[3])["namespace"]
                    inside = json.loads(ip("-n", namespace, "-json", "-details", "address", "show", "dev", "net0"))[0]
                    assert inside["linkinfo"]["info_kind"] == "macvlan"
                    assert (told.interface_name, told.hardware_address) == ("net0", inside["address"])
                    assert "10.215.0.2/24" in told.ips
                    await kit.unprepare(claim)
            assert namespace not in ip("netns", "list")
    finally:
        remove(parent)
