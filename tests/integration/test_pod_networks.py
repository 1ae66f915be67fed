"""Pods with networks of their own, by real containers (option --pod-network)."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from http.client import HTTPConnection
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container, ContainerPort, HTTPGetAction, Probe
from cathedra.api.struct import replace
from cathedra.client.resources import PODS
from cathedra.clock import SystemClock
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import stop
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.choose import choose_configured
from cathedra.node.runtime.podnetworks import PodNetworks, namespace_path
from cathedra.node.runtime.runtime import PodIdentity, SandboxSpec, UnusableRuntime
from tests.integration.real_node import RealNode, running
from tests.requirements import container_runtime
from tests.unit.node.fakes import make_pod

SUBNET = "10.213.77.0/28"
SERVE = "mkdir -p /tmp/www && echo {name} > /tmp/www/name && exec busybox httpd -f -p 8080 -h /tmp/www"


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="node-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def node(place: Path) -> AsyncIterator[RealNode]:
    found = RealNode(place / "node", container_runtime("crun"), pod_network=SUBNET)
    try:
        async with running(found.agent):
            yield found
    except* UnusableRuntime as unusable:
        pytest.skip(str(unusable.exceptions[0]))


def serving(name: str) -> Container:
    """A container that serves its name on port 8080."""
    probe = Probe(http_get=HTTPGetAction(path="/name", port=8080), period_seconds=1)
    return Container(name="c", image="busybox", command=("sh", "-c", SERVE.format(name=name)), readiness_probe=probe)


def fetch(address: str) -> str:
    # Not urllib: a proxy of the environment would get the request.
    connection = HTTPConnection(address, 8080, timeout=5)
    try:
        connection.request("GET", "/name")
        return connection.getresponse().read().decode().strip()
    finally:
        connection.close()


def links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith("cth")}


async def ready(node: RealNode, name: str) -> str:
    """Wait until a pod is ready by its probe. Return its address."""
    await node.until(lambda: any(one.ready for one in node.pod(name).status.container_statuses))
    status = node.pod(name).status
    assert [one.ip for one in status.pod_ips] == [status.pod_ip]
    return status.pod_ip


async def test_two_pods_listen_on_one_port_and_leave_nothing_behind(node: RealNode) -> None:
    before = links()
    for name in ("a", "b"):
        await node.run_pod(make_pod(name, serving(name)))
    addresses = {name: await ready(node, name) for name in ("a", "b")}
    assert len(set(addresses.values())) == 2
    for name, address in addresses.items():
        assert await asyncio.to_thread(fetch, address) == name
    assert len(links() - before) == 2
    for name in addresses:
        await node.client.resource(PODS, "default").delete(name, grace_period_seconds=0)
    await node.until(lambda: links() == before)
    await node.until(lambda: namespace_path("uid-a") is None)


async def test_a_pod_reaches_another_pod(node: RealNode) -> None:
    await node.run_pod(make_pod("a", serving("a")))
    address = await ready(node, "a")
    ask = f"env -u http_proxy busybox wget -q -O - http://{address}:8080/name"
    await node.run_pod(make_pod("p", Container(name="c", image="busybox", command=("sh", "-c", ask))))
    await node.until_phase("Succeeded")
    assert await node.logs() == (200, "a\n")


async def test_a_port_is_forwarded_to_the_localhost_of_the_pod(node: RealNode) -> None:
    await node.run_pod(make_pod("a", serving("a")))
    await ready(node, "a")
    networks = PodNetworks(IPv4Network(SUBNET), node.root / "networks")
    connection = await networks.connect("uid-a", 8080)
    await connection.write(b"GET /name HTTP/1.0\r\n\r\n")
    assert (await connection.read()).startswith(b"HTTP/1.")
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        await networks.connect("uid-a", 9)


async def test_a_pod_with_a_port_of_the_node_is_refused_by_name(node: RealNode) -> None:
    container = replace(serving("a"), ports=(ContainerPort(container_port=8080, host_port=18080),))
    await node.run_pod(make_pod("a", container))
    await node.until(lambda: bool(node.server.events("FailedCreatePodSandBox")))
    assert "hostPort is not supported" in node.server.events("FailedCreatePodSandBox")[0].message
    assert namespace_path("uid-a") is None


async def test_the_network_of_a_pod_outlives_its_agent_and_is_removed_by_the_next(place: Path) -> None:
    node = RealNode(place / "node", container_runtime("crun"), pod_network=SUBNET)
    before = links()
    first = node.make_agent(stop_containers=False)
    async with running(first):
        await node.run_pod(make_pod("a", serving("a")))
        address = await ready(node, "a")
    assert await asyncio.to_thread(fetch, address) == "a"
    async with running(node.agent):
        assert await ready(node, "a") == address
        assert await asyncio.to_thread(fetch, address) == "a"
        await node.client.resource(PODS, "default").delete("a", grace_period_seconds=0)
        await node.until(lambda: links() == before)


@pytest.mark.parametrize("ending", ["down", "start without the option"])
async def test_the_networks_of_a_killed_cluster_are_removed(place: Path, ending: str) -> None:
    data = DataDir(place / "data")
    root = place / "data" / "nodes" / "n"
    root.mkdir(parents=True)
    networks = PodNetworks(IPv4Network(SUBNET), root / "networks")
    try:
        await networks.probe()
    except UnusableRuntime as unusable:
        pytest.skip(str(unusable))
    before = links()
    await networks.run(SandboxSpec(PodIdentity("default", "p", "uid-left")))
    # An agent that was killed right after it had begun a file.
    (root / "networks" / "uid-torn").write_bytes(b"")
    assert len(links() - before) == 1
    if ending == "down":
        assert stop(data) is None
    else:
        config = NodeConfig(name="n", root=root, runtime="process")
        chosen = await choose_configured(config, SystemClock())
        await chosen.runtime.close(stop_containers=True)
    assert links() == before
    assert namespace_path("uid-left") is None
    assert list((root / "networks").iterdir()) == []
