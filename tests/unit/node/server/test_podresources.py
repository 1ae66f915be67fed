"""Devices of each container, as monitoring agents read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from cathedra._proto import podresources_v1_pb2 as v1
from cathedra._proto import podresources_v1_pb2_grpc as v1_grpc
from cathedra._proto import podresources_v1alpha1_pb2 as v1alpha1
from cathedra._proto import podresources_v1alpha1_pb2_grpc as v1alpha1_grpc
from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.struct import replace
from cathedra.clock import SystemClock
from cathedra.node.claims.checkpoint import ClaimInfo, ClaimInfoCache, DriverState
from cathedra.node.containers.records import ContainerRecord, records_for
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import PluginDevice
from cathedra.node.server.podresources import PodResourcesServer
from cathedra.releases import FeatureGates
from tests.running import beside
from tests.unit.node.fakes import DRIVER, make_pod


@dataclass
class Worker:
    """The part of a pod's worker that is read."""

    pod: Pod
    over: bool = False

    @property
    def records(self) -> tuple[ContainerRecord, ...]:
        return tuple(records_for(self.pod).values())


class Node:
    """The service on its socket."""

    def __init__(self, directory: Path, *workers: Worker, **gates: bool) -> None:
        clock = SystemClock()
        self.directory, self.all = directory, workers
        self.metrics = NodeMetrics(clock)
        cache = ClaimInfoCache()
        cache.add(
            ClaimInfo(
                "default",
                "c1",
                "uid-c1",
                {"uid-p"},
                {
                    "z.example.com": DriverState((PluginDevice("n1", "nic-0", share_id="s1"),)),
                    DRIVER: DriverState((PluginDevice("n1", "gpu-0", (), (f"{DRIVER}/gpu=0",)),)),
                },
            )
        )
        self.server = PodResourcesServer(
            directory,
            self,  # type: ignore[arg-type]  # as much of a manager as is called
            SimpleNamespace(cache=cache),  # type: ignore[arg-type]  # as much of a manager as is called
            clock=clock,
            gates=FeatureGates.for_release("1.35", gates),  # the last release in which none of them is locked
            metrics=self.metrics,
        )

    def workers(self) -> tuple[Worker, ...]:
        return self.all

    def find(self, namespace: str, name: str) -> Worker | None:
        found = [w for w in self.all if (w.pod.metadata.namespace, w.pod.metadata.name) == (namespace, name)]
        return found[-1] if found else None


@asynccontextmanager
async def served(node: Node) -> AsyncIterator[tuple[Any, Any]]:
    """Both versions of the service."""

    async with beside(node.server.run()):
        # A first attempt that comes too early would be followed by a pause of a second.
        options = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20)]
        async with grpc.aio.insecure_channel(f"unix:{node.directory}/kubelet.sock", options) as channel:
            async with asyncio.timeout(120):
                await channel.channel_ready()
            yield v1_grpc.PodResourcesListerStub(channel), v1alpha1_grpc.PodResourcesListerStub(channel)


INIT = Container(name="first", image="i")
SIDECAR = Container(name="beside", image="i", restart_policy="Always")


async def test_devices_of_claims_are_told_by_container_and_driver(tmp_path: Path) -> None:
    pod = make_pod("p", Container(name="c", image="i"), claims=["c1"], init_containers=(INIT, SIDECAR))
    async with served(Node(tmp_path, Worker(pod))) as (stub, alpha):
        (listed,) = (await stub.List(v1.ListPodResourcesRequest())).pod_resources
        got = await stub.Get(v1.GetPodResourcesRequest(pod_namespace="default", pod_name="p"))
        names = (await alpha.List(v1alpha1.ListPodResourcesRequest())).pod_resources
    assert listed == got.pod_resources
    assert [c.name for c in listed.containers] == ["beside", "c"], "init containers are over soon"
    assert list(listed.containers[0].dynamic_resources) == []
    (held,) = listed.containers[1].dynamic_resources
    assert (held.claim_namespace, held.claim_name) == ("default", "c1")
    told = [(r.driver_name, r.device_name, r.share_id, [d.name for d in r.cdi_devices]) for r in held.claim_resources]
    assert told == [(DRIVER, "gpu-0", "", [f"{DRIVER}/gpu=0"]), ("z.example.com", "nic-0", "s1", [])]
    assert [(p.namespace, p.name, [c.name for c in p.containers]) for p in names] == [("default", "p", ["beside", "c"])]


@pytest.mark.parametrize(("active_only", "names"), [(True, ["b"]), (False, ["a", "b"])])
async def test_pods_that_are_over_are_listed_only_by_older_nodes(
    tmp_path: Path, active_only: bool, names: list[str]
) -> None:
    workers = Worker(make_pod("a"), over=True), Worker(make_pod("b"))
    async with served(Node(tmp_path, *workers, KubeletPodResourcesListUseActivePods=active_only)) as (stub, _):
        listed = await stub.List(v1.ListPodResourcesRequest())
    assert [pod.name for pod in listed.pod_resources] == names


async def test_without_its_gate_claims_are_not_told(tmp_path: Path) -> None:
    node = Node(tmp_path, Worker(make_pod("p", claims=["c1"])), KubeletPodResourcesDynamicResources=False)
    async with served(node) as (stub, _):
        (pod,) = (await stub.List(v1.ListPodResourcesRequest())).pod_resources
    assert list(pod.containers[0].dynamic_resources) == []


async def test_a_claim_that_is_not_made_or_not_prepared_yet_holds_nothing(tmp_path: Path) -> None:
    template = make_pod("p", claims=["c2"])
    claims = (replace(template.spec.resource_claims[0], resource_claim_name=None, resource_claim_template_name="t"),)
    template = replace(template, spec=replace(template.spec, resource_claims=claims))
    async with served(Node(tmp_path, Worker(template), Worker(make_pod("q", claims=["c2"])))) as (stub, _):
        listed = (await stub.List(v1.ListPodResourcesRequest())).pod_resources
    assert [list(pod.containers[0].dynamic_resources) for pod in listed] == [[], []]


@pytest.mark.parametrize(
    ("gate", "name", "why"),
    [
        (True, "q", "pod q in namespace default not found"),
        (True, "over", "pod over in namespace default not found"),
        (False, "p", "PodResources API Get method disabled"),
    ],
)
async def test_one_pod_is_refused_in_the_kubelets_words_and_counted(
    tmp_path: Path, gate: bool, name: str, why: str
) -> None:
    node = Node(tmp_path, Worker(make_pod("p")), Worker(make_pod("over"), over=True), KubeletPodResourcesGet=gate)
    async with served(node) as (stub, _):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.Get(v1.GetPodResourcesRequest(pod_namespace="default", pod_name=name))
    assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.UNKNOWN, why)
    text = node.metrics.text().decode()
    assert 'kubelet_pod_resources_endpoint_errors_get{server_api_version="v1"} 1' in text


async def test_there_are_no_device_plugins_and_nothing_is_allocatable(tmp_path: Path) -> None:
    async with served(Node(tmp_path)) as (stub, _):
        assert await stub.GetAllocatableResources(v1.AllocatableResourcesRequest()) == v1.AllocatableResourcesResponse()


async def test_calls_beyond_the_rate_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cathedra.node.server import podresources

    monkeypatch.setattr(podresources, "_BURST", 2)
    monkeypatch.setattr(podresources, "_RATE", 0.0)
    async with served(Node(tmp_path)) as (stub, alpha):
        await stub.List(v1.ListPodResourcesRequest())
        await alpha.List(v1alpha1.ListPodResourcesRequest())
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.List(v1.ListPodResourcesRequest())
    assert (raised.value.code(), raised.value.details()) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "rejected by rate limit",
    )


async def test_the_socket_of_an_earlier_life_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kubelet.sock").write_text("left over")
    async with served(Node(tmp_path)) as (stub, _):
        assert list((await stub.List(v1.ListPodResourcesRequest())).pod_resources) == []
