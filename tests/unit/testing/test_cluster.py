"""A cluster in its thread: for tests that block, tests that are coroutines, and what goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.profiles import ProfileError
from cathedra.testing import ClusterOptions, DRACluster
from tests.unit.testing.manifests import pod_with


@pytest.mark.dra_cluster(profile="h100-8")
async def test_a_coroutine_does_not_block_its_own_loop(dra_cluster: DRACluster) -> None:
    steps = 0

    async def step() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    stepping = asyncio.ensure_future(step())
    cluster = dra_cluster.aio
    await cluster.apply(pod_with(2))
    pod = await cluster.wait_for("pod/train", "phase=Running")
    assert pod.spec.node_name == "node-0"
    await cluster.advance(60)
    assert (await cluster.explain("pod/train")).fits
    (claim,) = await cluster.list("resourceclaims")
    assert await cluster.get(f"resourceclaim/{claim.metadata.name}")
    await cluster.delete("pod/train")
    await cluster.wait_for("pod/train", "delete")
    assert await cluster.add_nodes() == ("node-1",)
    await cluster.silence_node("node-1")
    status = {"conditions": [{"type": "T", "status": "True"}]}
    assert await cluster.patch_status("node/node-0", status)
    assert steps > 1
    stepping.cancel()


@pytest.mark.parametrize("dra_cluster", [{"gpus": 3}], indirect=True)
def test_the_fixture_takes_options_as_its_parameter(dra_cluster: DRACluster) -> None:
    (found,) = dra_cluster.list("resourceslices")
    assert len(found.spec.devices) == 3


@pytest.mark.dra_cluster(gpus=1, nodes=2)
class TestMarkers:
    """A marker nearer to the test wins, option by option."""

    @pytest.mark.dra_cluster(gpus=2)
    def test_options_of_class_and_function_come_together(self, dra_cluster: DRACluster) -> None:
        assert (dra_cluster.options.gpus, dra_cluster.options.nodes) == (2, 2)


def test_two_clusters_live_beside_each_other_and_end(tmp_path: Path) -> None:
    with DRACluster(ClusterOptions(), tmp_path / "a") as one, DRACluster(ClusterOptions(), tmp_path / "b") as two:
        one.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
        assert [item.metadata.name for item in one.list("configmaps", namespace="default")].count("c") == 1
        assert [item.metadata.name for item in two.list("configmaps", namespace="default")].count("c") == 0
        assert one.server != two.server
        one.advance(3600)
    with pytest.raises(RuntimeError, match="this cluster has been stopped"):
        one.list("pods")


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="there is no profile 'h101'"):
        DRACluster(ClusterOptions(profile="h101"), tmp_path).start()
    with pytest.raises(InvalidOption, match="--kubernetes-version must be one of"):
        DRACluster(ClusterOptions(kubernetes_version="1.9"), tmp_path).start()
