"""Networks of pods: what is refused before anything is made, and the files of pods."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import msgspec
import pytest

from cathedra.clock import SystemClock
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.choose import choose_configured
from cathedra.node.runtime.podnetworks import PodNetwork, PodNetworks, namespace_path
from cathedra.node.runtime.runtime import PodIdentity, RuntimeFailure, SandboxSpec, UnusableRuntime

POD = PodIdentity("default", "p", "uid-of-no-pod")


def networks(directory: Path) -> PodNetworks:
    return PodNetworks(IPv4Network("10.88.0.0/16"), directory / "networks")


async def test_a_pod_in_the_nodes_network_gets_no_address(tmp_path: Path) -> None:
    made = await networks(tmp_path).run(SandboxSpec(POD, host_network=True, host_ports=True))
    assert (made.id, made.address) == (POD.uid, "")
    assert namespace_path(POD.uid) is None


async def test_a_pod_with_a_port_of_the_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="hostPort is not supported with --pod-network"):
        await networks(tmp_path).run(SandboxSpec(POD, host_ports=True))


async def test_pods_are_listed_from_their_files(tmp_path: Path) -> None:
    assert await networks(tmp_path).pods() == ()
    (tmp_path / "networks").mkdir()
    record = PodNetwork(POD.namespace, POD.name, POD.uid)
    (tmp_path / "networks" / POD.uid).write_bytes(msgspec.json.encode(record))
    (tmp_path / "networks" / "torn").write_bytes(b"{")
    assert await networks(tmp_path).pods() == (POD,)


async def test_nothing_listens_in_a_pod_without_a_network(tmp_path: Path) -> None:
    with pytest.raises(ConnectionRefusedError):
        await networks(tmp_path).connect(POD.uid, 80)


@pytest.mark.parametrize(
    ("runtime", "subnet", "why"),
    [
        ("process", "10.88.0.0/16", "--pod-network needs crun or runc"),
        ("cri", "10.88.0.0/16", "--pod-network needs crun or runc"),
        ("oci", "10.88.0.1/16", "has host bits set"),
        ("oci", "a", "Expected 4 octets"),
    ],
)
async def test_what_cannot_work_is_refused_by_name(tmp_path: Path, runtime: str, subnet: str, why: str) -> None:
    config = NodeConfig(name="n", root=tmp_path, runtime=runtime, pod_network=subnet)
    with pytest.raises(UnusableRuntime, match=why):
        await choose_configured(config, SystemClock())
