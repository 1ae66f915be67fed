"""The composition of a cluster: a configured scheduler, and a node that is drained."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.struct import from_dict, replace
from cathedra.client.client import Client
from cathedra.client.resources import DEVICECLASSES, NODES, PODS, RESOURCECLAIMS, RESOURCEQUOTAS
from cathedra.clock import SystemClock
from cathedra.cluster.cluster import RunningCluster, drain
from cathedra.cluster.config import ClusterConfig, DriverConfig
from cathedra.semantics.conditions import find_condition
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim, device_class, node, pod
from tests.unit.spoiled import SPOILED, SpoiledTransport


@run_with(with_api)
async def test_a_pod_that_cannot_be_decoded_leaves_as_the_others_do(api: API) -> None:
    await api.client.resource(NODES).create(node("n1"))
    pods = api.client.resource(PODS, "default")
    for name, where, noted in (("a", "n1", {}), ("b", "n1", {SPOILED: "spec.new"}), ("c", "n2", {})):
        made = pod(name, nodeName=where)
        await pods.create(replace(made, metadata=replace(made.metadata, annotations=noted)))
    draining = Client(SpoiledTransport(api.transport), clock=api.clock)
    assert await asyncio.wait_for(drain(draining, "n1", clock=api.clock), 600) == 2
    assert [one.metadata.name for one in (await pods.list()).items] == ["c"]


_QUOTAS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: DeviceQuota}]}}
"""


@run_with(lambda test: asyncio.run(test()))
async def test_the_scheduler_has_the_plugins_of_its_file_and_the_rights_for_them(*, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(_QUOTAS)
    config = ClusterConfig(
        data_dir=tmp_path / "data",
        store="memory",
        runtime="simulated",
        driver=DriverConfig(gpus=4),
        scheduler_file=file,
    )
    cluster = RunningCluster(config, clock=SystemClock(), random=Random(1), say=lambda _: None)
    async with cluster.running(), asyncio.timeout(60):
        await cluster.wait_ready()
        client = cluster.client()
        await client.resource(DEVICECLASSES).create(device_class())
        limits = {"gpu.deviceclass.scheduling.cathedra.dev/devices": "2"}
        quota = {"metadata": {"name": "gpus", "namespace": "default"}, "spec": {"hard": limits}}
        await client.resource(RESOURCEQUOTAS, "default").create(from_dict(ResourceQuota, quota))
        for name in ("a", "b", "c"):
            await client.resource(RESOURCECLAIMS, "default").create(claim(name))
            using = pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
            await client.resource(PODS, "default").create(using)
        pods: list[str] = []
        # Until the scheduler has seen class and quota, it may refuse a pod for another reason.
        while sorted(map(_kind, pods)) != ["", "bound", "bound"] or "exceeded quota: gpus" not in "".join(pods):
            pods = [await _decided(client, name) for name in ("a", "b", "c")]
            await asyncio.sleep(0.05)
        assert cluster.denials.lines() == []


def _kind(decision: str) -> str:
    return decision if decision == "bound" else ""


async def _decided(client: Client, name: str) -> str:
    """Return «bound», or the scheduler's refusal; "" before it has decided."""
    found: Pod = await client.resource(PODS, "default").get(name)
    condition = find_condition(found.status.conditions, "PodScheduled")
    return "bound" if found.spec.node_name else condition.message if condition is not None else ""
