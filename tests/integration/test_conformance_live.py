"""Scenarios over the wire, on a cluster of processes: the player needs nothing but the Kubernetes API."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from cathedra.client.kubeconfig import load
from tests.conformance.api_area import ALPHA, MORE_VERSIONS, RELEASE
from tests.conformance.live import run_live
from tests.conformance.live_cluster import connected
from tests.conformance.scenario_snapshot import RESOURCES
from tests.conformance.vectorfiles import VECTORS
from tests.integration.conftest import RunningCluster


@pytest.fixture(scope="module")
def control_plane(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """A cluster without nodes, as the scenarios were recorded on one."""
    return start_cluster(
        "--nodes=0",
        f"--kubernetes-version={RELEASE}",
        f"--feature-gates={','.join(f'{gate}=true' for gate in ALPHA)}",
        f"--runtime-config={','.join(f'{version}=true' for version in MORE_VERSIONS)}",
    )


@pytest.mark.parametrize("name", ["gc/chain/Foreground", "claims/template/metadata", "deployments/create"])
def test_a_scenario_is_answered_over_the_wire_as_recorded(name: str, control_plane: RunningCluster) -> None:
    score = asyncio.run(run_live(load(control_plane.kubeconfig), VECTORS / "scenarios", name))
    assert score.failed == {}
    assert score.passed == [name]


def test_scenarios_of_other_gates_are_counted_apart(control_plane: RunningCluster) -> None:
    score = asyncio.run(run_live(load(control_plane.kubeconfig), VECTORS / "scenarios", "claims/foreign/"))
    assert score.unsuited == {"claims/foreign/claim-of-other-pod": "recorded with gates: default"}
    assert score.passed == []


def test_a_cluster_with_nodes_is_refused_in_one_line(control_plane: RunningCluster) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}

    async def change(method: str, path: str, body: object = None) -> int:
        async with connected(load(control_plane.kubeconfig)) as cluster:
            return (await cluster.request(method, path, body))[0]

    assert asyncio.run(change("POST", RESOURCES["Node"].path(), node)) == 201
    command = [sys.executable, "-m", "tests.conformance", "--area", "scenarios", "--live", "--only", "gc/"]
    done = subprocess.run(
        [*command, f"--kubeconfig={control_plane.kubeconfig}"], capture_output=True, text=True, timeout=150, check=False
    )
    asyncio.run(change("DELETE", RESOURCES["Node"].path(name="worker")))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "conformance: the cluster has objects of kind Node (worker); scenarios need a control plane without nodes and "
        "devices, for example: cathedra up --nodes 0\n"
    )
