"""Objects that dumps leave out, and volumes of claims that a simulation creates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Container, Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.client.transport import APICall
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.simulation.copying import SimulatedNodes
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster
from tests.unit.inprocess import API, with_api
from tests.unit.insight.simulation.test_comparing import SET

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def storage_class(provisioner: str = "disk.example.com", **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": annotations},
        "provisioner": provisioner,
        "volumeBindingMode": "Immediate",
    }


def claim(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**SPEC, **spec}}


def stateful_set() -> dict[str, Any]:
    containers = {"containers": [{"name": "main", "image": "main"}]}
    template = {**SET["spec"]["template"], "spec": containers}
    templates = [{"metadata": {"name": "data"}, "spec": SPEC}]
    return {**SET, "spec": {**SET["spec"], "template": template, "volumeClaimTemplates": templates}}


@pytest.mark.parametrize(
    ("provisioner", "placed"), [("disk.example.com", ["default/web-0"]), ("kubernetes.io/no-provisioner", [])]
)
def test_a_claim_that_is_created_is_bound_if_its_class_has_a_provisioner(provisioner: str, placed: list[str]) -> None:
    default = storage_class(provisioner, **{"storageclass.kubernetes.io/is-default-class": "true"})
    state = read_dump([*gpu_cluster(), default, claim("other")])
    found = simulate(state, PlannedChanges(apply=stateful_set()), copies=0)
    assert [one.pod for one in found.placed] == placed
    assert [group.why for group in found.pending] == (
        [] if placed else ["fits on none of 2 nodes: pod has unbound immediate PersistentVolumeClaims"]
    )


def test_a_claim_that_waited_before_waits_still() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "main"}], "volumes": volumes},
    }
    state = read_dump([*gpu_cluster(), storage_class(), claim("data", storageClassName="fast")])
    assert simulate(state, PlannedChanges(apply=pod), copies=0).placed == ()


def workload(kind: str, group: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "main", "image": "main"}]}}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    metadata = {"name": "w", "namespace": "default", "uid": "w"}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": {"template": template, **spec}}


@pytest.mark.parametrize(
    "given",
    [
        workload("Job", "batch/v1", parallelism=2, completions=2),
        workload("ReplicaSet", "apps/v1", replicas=2),
        workload("Deployment", "apps/v1", replicas=2),
    ],
    ids=lambda given: given["kind"],
)
def test_a_workload_of_a_dump_without_a_selector_creates_no_more_pods_than_it_wants(given: dict[str, Any]) -> None:
    found = simulate(read_dump([*gpu_cluster(), given]))
    assert (len(found.placed), found.pending) == (2, ())


def test_pods_that_such_a_workload_has_already_are_kept() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": True}
    metadata = {"name": "old", "namespace": "default", "uid": "old", "ownerReferences": [owner]}
    spec = {"nodeName": "node-0", "containers": [{"name": "main", "image": "main"}]}
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    found = simulate(read_dump([*gpu_cluster(), workload("ReplicaSet", "apps/v1", replicas=2), old]))
    assert len(found.placed) == 1
    assert found.gone == ()


class CallsUnderWay:
    """A transport that counts how many calls are under way at the same time."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.now, self.most = inner, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def call(self, call: APICall) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self.inner.call(call)
        finally:
            self.now -= 1


def test_pods_of_one_moment_are_started_at_the_same_time() -> None:
    """So controllers see their statuses together, and count a replica set once for all of them."""

    async def body(api: API) -> tuple[int, set[str]]:
        transport = CallsUnderWay(api.transport)
        nodes = SimulatedNodes(Client(transport, clock=api.clock), api.informers, api.clock)
        running = asyncio.ensure_future(nodes.run())
        pods = api.informers.of(PODS)
        api.follow()
        await pods.wait_synced()
        client = api.client.resource(PODS, "default")
        spec = PodSpec(node_name="n", containers=(Container(name="main", image="main"),))
        made = [Pod(metadata=ObjectMeta(name=f"web-{number}"), spec=spec) for number in range(8)]
        await asyncio.gather(*map(client.create, made))
        await api.until(lambda: all(pod.status.phase == "Running" for pod in pods.store.list()))
        running.cancel()
        return transport.most, {pod.metadata.name for pod in pods.store.list()}

    assert with_api(body) == (8, {f"web-{number}" for number in range(8)})
