"""Clients of others on the fixture's kubeconfig: the official one, kr8s and kopf."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import kopf
import kr8s
import kubernetes
import pytest

from cathedra.testing import DRACluster
from tests.unit.testing.manifests import pod_with


@pytest.mark.dra_cluster(profile="h100-8")
def test_the_official_client_creates_watches_and_deletes(dra_cluster: DRACluster, kubeconfig: Path) -> None:
    api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(kubeconfig)))
    dra_cluster.apply(pod_with(2))
    phases = []
    for event in kubernetes.watch.Watch().stream(api.list_namespaced_pod, "default", timeout_seconds=120):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            break
    claims = kubernetes.client.ResourceV1Api(api.api_client).list_namespaced_resource_claim("default").items
    assert [len(claim.status.allocation.devices.results) for claim in claims] == [2]
    api.delete_namespaced_pod("train", "default")
    dra_cluster.wait_for("pod/train", "delete")


@pytest.mark.dra_cluster(profile="h100-8")
async def test_kr8s_reads_and_waits(dra_cluster: DRACluster, kubeconfig: Path) -> None:
    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    await dra_cluster.aio.apply(pod_with(1))
    pods = [pod async for pod in api.get("pods", "train", namespace="default")]
    await pods[0].wait("condition=Ready", timeout=120)
    assert [node.name async for node in api.get("nodes")] == ["node-0"]
    await pods[0].delete()
    await dra_cluster.aio.wait_for("pod/train", "delete")


async def test_an_operator_written_with_kopf_runs_in_the_tests_own_loop(
    dra_cluster: DRACluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**given: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_kubeconfig(**given)

    @kopf.on.create("configmaps", registry=registry, labels={"watched": "yes"})
    async def label(patch: kopf.Patch, **_: Any) -> None:
        patch.metadata.labels["seen"] = "yes"

    stop, ready = asyncio.Event(), asyncio.Event()
    operator = asyncio.ensure_future(
        kopf.operator(registry=registry, namespaces=["default"], standalone=True, stop_flag=stop, ready_flag=ready)
    )
    await asyncio.wait_for(ready.wait(), 120)
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"watched": "yes"}}}
    await dra_cluster.aio.apply(manifest)
    await dra_cluster.aio.wait_for("configmap/c", lambda one: one.metadata.labels.get("seen") == "yes", timeout=120)
    stop.set()
    await asyncio.wait_for(operator, 120)
