"""Pods per second from creation to binding: API server with a durable store, resource claim controller, scheduler.

The workloads carry the names of Kubernetes' scheduler_perf and have its shape (docs/spec/scheduling.md §19).
Everything runs in one process and on one event loop; nodes are objects without an agent. Kubernetes' figures are its
own control plane's on a machine of this kind where there is one, otherwise what upstream calls typical for its CI.

    python -m benchmarks scheduler
    python benchmarks/scheduler.py [NAME ...]
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cathedra.api.core.core_v1 import Namespace, Node, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.gates import FeatureGates
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import (
    DEVICECLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
)
from cathedra.clock import SystemClock
from cathedra.controllers.controller_manager import ControllerManager
from cathedra.scheduler.scheduler import Scheduler

__all__ = ["WORKLOADS", "Workload", "measure", "rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

NAMESPACE = "bench"
DRIVER = "test-driver.cdi.k8s.io"
CREATORS = 16
"""So many pods are created at the same time."""
STEADY_PODS = 10
STEADY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Workload:
    """One row: a cluster, what is in it already, and the pods that are measured."""

    name: str
    nodes: int
    devices: int
    """Per node."""
    kubernetes: float | None
    goal: float | None
    init_claims: int = 0
    """Allocated before the measurement."""
    pods: int = 0
    """Measured in one burst; 0: a steady stream for ten seconds."""
    pods_per_claim: int = 0
    """0: every pod has a claim of its own from a template."""


WORKLOADS: tuple[Workload, ...] = (
    Workload("SchedulingWithResourceClaimTemplate/2000pods_100nodes", 100, 20, 76, 200, pods=2000),
    Workload("SchedulingWithResourceClaimTemplate/5000pods_500nodes", 500, 10, 70, 200, init_claims=2500, pods=2500),
    Workload("SchedulingWithResourceClaimTemplate/empty_500nodes", 500, 10, 81, 200),
    Workload("SchedulingWithResourceClaimTemplate/half_500nodes", 500, 10, 75, 200, init_claims=2500),
    Workload("SchedulingWithResourceClaimTemplate/full_500nodes", 500, 10, 75, 200, init_claims=4990),
    Workload(
        "SchedulingWithResourceClaim/2000pods_200nodes",
        200,
        2,
        None,
        None,
        init_claims=200,
        pods=1000,
        pods_per_claim=5,
    ),
)


def rows() -> Iterator[Row]:
    """Every workload's average throughput."""
    for workload in WORKLOADS:
        yield _row(workload)


def _row(workload: Workload) -> Row:
    return workload.name, measure(workload), "pods/s", workload.kubernetes, workload.goal


def measure(workload: Workload) -> float:
    """Pods bound per second."""
    return asyncio.run(_measure(workload))


async def _measure(workload: Workload) -> float:
    async with _control_plane() as (client, informers):
        await _furnish(client, workload)
        bound = _Bound(informers)
        return await (_burst(client, workload, bound) if workload.pods else _steady(client, workload, bound))


@asynccontextmanager
async def _control_plane() -> AsyncIterator[tuple[Client, SharedInformers]]:
    clock, gates = SystemClock(), FeatureGates.for_release()
    with tempfile.TemporaryDirectory() as directory:
        store = SQLiteStorage(Path(directory) / "store.db")
        server = await APIServer.open(ServerConfig(gates=gates), clock=clock, random=random.Random(1), store=store)
        client = Client(server.transport(), clock=clock, field_manager="bench")
        informers = SharedInformers(client, clock)
        controllers = ControllerManager(
            Client(server.transport("system:kube-controller-manager"), clock=clock),
            clock=clock,
            random=random.Random(2),
            gates=gates,
            informers=informers,
            controllers=["resourceclaim-controller"],
        )
        scheduler = Scheduler(
            Client(server.transport("system:kube-scheduler"), clock=clock),
            clock=clock,
            random=random.Random(3),
            gates=gates,
            informers=informers,
        )
        parts = [asyncio.ensure_future(part.run()) for part in (controllers, scheduler, informers)]
        try:
            yield client, informers
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await server.close()


class _Bound:
    """Counts pods as they are bound, and lets one wait for them."""

    def __init__(self, informers: SharedInformers) -> None:
        self.total = 0
        self.names: asyncio.Queue[str] = asyncio.Queue()
        informers.of(PODS).add_handler(on_update=self._updated)

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name:
            self.total += 1
            self.names.put_nowait(new.metadata.name)


async def _burst(client: Client, workload: Workload, bound: _Bound) -> float:
    if workload.pods_per_claim:
        for index in range(workload.pods // workload.pods_per_claim):
            await client.resource(RESOURCECLAIMS, NAMESPACE).create(_claim(f"claim-{index}"))
    loop = asyncio.get_running_loop()
    started = loop.time()
    pending = iter(range(workload.pods))

    async def create() -> None:
        for index in pending:
            await client.resource(PODS, NAMESPACE).create(_pod(workload, index))

    await asyncio.gather(*(create() for _ in range(CREATORS)))
    for _ in range(workload.pods):
        await bound.names.get()
    return workload.pods / (loop.time() - started)


async def _steady(client: Client, workload: Workload, bound: _Bound) -> float:
    """Keep ten pods waiting: one is created for every one that is bound, which is then deleted."""
    pods = client.resource(PODS, NAMESPACE)
    for index in range(STEADY_PODS):
        await pods.create(_pod(workload, index))
    loop = asyncio.get_running_loop()
    started = loop.time()
    index = STEADY_PODS

    async def turn_over(name: str, number: int) -> None:
        await pods.delete(name, grace_period_seconds=0)
        await pods.create(_pod(workload, number))

    async with asyncio.TaskGroup() as group:
        while loop.time() - started < STEADY_SECONDS:
            group.create_task(turn_over(await bound.names.get(), index))
            index += 1
    return bound.total / (loop.time() - started)


async def _furnish(client: Client, workload: Workload) -> None:
    await client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    await client.resource(DEVICECLASSES).create(_class())
    await client.resource(RESOURCECLAIMTEMPLATES, NAMESPACE).create(_template())
    for index in range(workload.nodes):
        await client.resource(NODES).create(_node(f"node-{index}"))
        await client.resource(RESOURCESLICES).create(_slice(f"node-{index}", workload.devices))
    claims = client.resource(RESOURCECLAIMS, NAMESPACE)
    for index in range(workload.init_claims):
        made = await claims.create(_claim(f"init-{index}"))
        # Spread as a scheduler would have: one device of every node, then the next one of every node.
        node, device = f"node-{index % workload.nodes}", index // workload.nodes
        await claims.update_status(_allocated(made, node, device))


def _class() -> DeviceClass:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return from_dict(DeviceClass, {"metadata": {"name": "test-class"}, "spec": {"selectors": [selector]}})


_SPEC = {
    "devices": {
        "requests": [
            {
                "name": "req-0",
                "exactly": {"deviceClassName": "test-class", "allocationMode": "ExactCount", "count": 1},
            }
        ]
    }
}


def _template() -> ResourceClaimTemplate:
    metadata = {"name": "template", "namespace": NAMESPACE}
    return from_dict(ResourceClaimTemplate, {"metadata": metadata, "spec": {"spec": _SPEC}})


def _claim(name: str) -> ResourceClaim:
    return from_dict(ResourceClaim, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": _SPEC})


def _allocated(claim: ResourceClaim, node: str, device: int) -> ResourceClaim:
    result = {"request": "req-0", "driver": DRIVER, "pool": node, "device": f"basic-device-{device}"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    # Somebody uses the claim, or the controller would deallocate it.
    user = {"resource": "pods", "name": "somebody", "uid": f"uid-{claim.metadata.name}"}
    status = from_dict(ResourceClaim, {"status": {"allocation": allocation, "reservedFor": [user]}}).status
    return replace(claim, status=status)


def _pod(workload: Workload, index: int) -> Pod:
    if workload.pods_per_claim:
        entry = {"name": "resource", "resourceClaimName": f"claim-{index // workload.pods_per_claim}"}
    else:
        entry = {"name": "resource", "resourceClaimTemplateName": "template"}
    container = {"name": "pause", "image": "pause", "resources": {"claims": [{"name": "resource"}]}}
    return from_dict(
        Pod,
        {
            "metadata": {"name": f"pod-{index}", "namespace": NAMESPACE},
            "spec": {"containers": [container], "schedulerName": "default-scheduler", "resourceClaims": [entry]},
        },
    )


def _node(name: str) -> Node:
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return from_dict(Node, {"metadata": metadata, "status": {"capacity": room, "allocatable": room}})


def _slice(node: str, devices: int) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return from_dict(
        ResourceSlice,
        {
            "metadata": {"name": f"{node}-slice"},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [_device(i) for i in range(devices)]},
        },
    )


def _device(index: int) -> dict[str, object]:
    return {
        "name": f"basic-device-{index}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            "resource.kubernetes.io/pciRoot": {"string": str(index)},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }


def main(names: Sequence[str]) -> None:
    """Measure the named workloads, or all."""
    for workload in WORKLOADS:
        if not names or any(name in workload.name for name in names):
            name, value, unit, kubernetes, goal = _row(workload)
            print(f"{name}: {value:.1f} {unit} (Kubernetes {kubernetes or '–'}, goal {goal or '–'})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
