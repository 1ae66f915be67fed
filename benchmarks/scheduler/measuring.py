"""How a workload is run: on a control plane in this process, or against a cluster."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.scheduler import objects
from benchmarks.scheduler.objects import NAMESPACE
from benchmarks.scheduler.serving import WAYS, TransportOf, served_apart
from benchmarks.scheduler.workloads import WORKLOADS, Shape, Workload
from cathedra.api.core.core_v1 import Namespace, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.gates import FeatureGates
from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
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
from cathedra.client.transport import EventType
from cathedra.clock import SystemClock
from cathedra.cluster.parts.gctuning import suspend_collection, tune_collection
from cathedra.controllers.controller_manager import ControllerManager
from cathedra.scheduler.scheduler import Scheduler

__all__ = ["Throughput", "measure", "rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

Processor = Callable[[], float]
"""Processor seconds that all processes of a workload have taken."""

APART: Final = "SchedulingWithResourceClaimTemplate/2000pods_100nodes"
"""The workload that is also measured over each way between two processes."""
CREATORS: Final = 16
"""So many pods are created at the same time."""
STEADY_SECONDS: Final = 10.0
PROCESSOR_GOAL: Final = 1.2


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast pods were bound: per second, and milliseconds of this process for each."""

    per_second: float
    processor: float


def rows(names: Sequence[str] = (), against: str = "") -> Iterator[Row]:
    """Every workload's average throughput, or that of those whose name contains one of ``names``.

    Without names, the first template workload also runs with the API server in a process of its own.
    """
    for workload in WORKLOADS:
        if names and not any(name in workload.name for name in names):
            continue
        found = measure(workload, against)
        yield workload.name, found.per_second, "pods/s", workload.kubernetes, workload.goal
        if against:
            continue
        goal = PROCESSOR_GOAL if not workload.steady and workload.shape is Shape.BASIC else None
        yield f"{workload.name}, processor time", found.processor, "ms/pod", None, goal
        if names or workload.name == APART:
            yield from _apart(workload)


def _apart(workload: Workload) -> Iterator[Row]:
    """The same with two processes, over each of the ways between them; processor time is that of both."""
    for way in WAYS[1:]:
        found = measure(workload, way=way)
        yield f"{workload.name}, {way}", found.per_second, "pods/s", workload.kubernetes, None
        yield f"{workload.name}, {way}, processor time", found.processor, "ms/pod", None, None


def measure(workload: Workload, against: str = "", *, way: str = WAYS[0]) -> Throughput:
    """Run one workload, in this process, with the API server in another, or against the cluster of a kubeconfig."""
    return uvloop.run(_measure(workload, against, way))


async def _measure(workload: Workload, against: str, way: str) -> Throughput:
    suspend_collection()
    async with _cluster(against) if against else _parts(way) as (client, informers, processor):
        await _furnish(client, workload)
        bound = _Bound(informers)
        tune_collection()
        run = _steady if workload.steady else _burst
        began, spent = time.monotonic(), processor()
        pods = await run(client, workload, bound)
        return Throughput(pods / (time.monotonic() - began), (processor() - spent) / pods * 1000)


@asynccontextmanager
async def _parts(way: str) -> AsyncIterator[tuple[Client, SharedInformers, Processor]]:
    """Scheduler and claim controller in this process, and the API server here or in another."""
    if way == WAYS[0]:
        async with _served_here() as transport_of, _control_plane(transport_of) as (client, informers):
            yield client, informers, time.process_time
        return
    async with served_apart(way) as (transport_of, spent), _control_plane(transport_of) as (client, informers):
        yield client, informers, lambda: time.process_time() + spent()


@asynccontextmanager
async def _served_here() -> AsyncIterator[TransportOf]:
    with tempfile.TemporaryDirectory() as directory:
        store = SQLiteStorage(Path(directory) / "store.db")
        config = ServerConfig(gates=FeatureGates.for_release())
        server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=store)
        try:
            yield server.transport
        finally:
            await server.close()


@asynccontextmanager
async def _control_plane(transport_of: TransportOf) -> AsyncIterator[tuple[Client, SharedInformers]]:
    clock, gates = SystemClock(), FeatureGates.for_release()
    client = Client(transport_of("bench"), clock=clock, field_manager="bench")
    informers = SharedInformers(client, clock)
    controllers = ControllerManager(
        Client(transport_of("system:kube-controller-manager"), clock=clock),
        clock=clock,
        random=random.Random(2),
        gates=gates,
        informers=informers,
        controllers=["resourceclaim-controller"],
    )
    scheduler = Scheduler(
        Client(transport_of("system:kube-scheduler"), clock=clock),
        clock=clock,
        random=random.Random(3),
        gates=gates,
        informers=informers,
    )
    async with _running(controllers, scheduler, informers):
        yield client, informers


@asynccontextmanager
async def _cluster(path: str) -> AsyncIterator[tuple[Client, SharedInformers, Processor]]:
    """A cluster that runs already; what was made in it is taken away again."""
    clock = SystemClock()
    async with await HTTPTransport.open(kubeconfig.load(Path(path))) as transport:
        client = Client(transport, clock=clock, field_manager="bench")
        informers = SharedInformers(client, clock)
        try:
            async with _running(informers):
                yield client, informers, time.process_time
        finally:
            await _clear(client)


@asynccontextmanager
async def _running(*parts: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Bound:
    """Counts pods as they are bound, and lets one wait for them."""

    def __init__(self, informers: SharedInformers) -> None:
        self.total = 0
        self.names: asyncio.Queue[str] = asyncio.Queue()
        informers.of(PODS).add_handler(on_update=self._updated)

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.metadata.namespace == NAMESPACE and new.spec.node_name and not old.spec.node_name:
            self.total += 1
            self.names.put_nowait(new.metadata.name)


async def _create_pods(client: Client, workload: Workload) -> None:
    pending = iter(range(workload.pods))

    async def create() -> None:
        for index in pending:
            await client.resource(PODS, NAMESPACE).create(objects.pod(workload, index))

    await asyncio.gather(*(create() for _ in range(CREATORS)))


async def _burst(client: Client, workload: Workload, bound: _Bound) -> int:
    await _create_pods(client, workload)
    for _ in range(workload.pods):
        await bound.names.get()
    return workload.pods


async def _steady(client: Client, workload: Workload, bound: _Bound) -> int:
    """Keep so many pods waiting: one is created for every one that is bound, which is then deleted."""
    pods = client.resource(PODS, NAMESPACE)
    await _create_pods(client, workload)
    ends = time.monotonic() + STEADY_SECONDS
    index = workload.pods

    async def turn_over(name: str, number: int) -> None:
        await pods.delete(name, grace_period_seconds=0)
        await pods.create(objects.pod(workload, number))

    async with asyncio.TaskGroup() as group:
        while time.monotonic() < ends:
            group.create_task(turn_over(await bound.names.get(), index))
            index += 1
    return bound.total


async def _furnish(client: Client, workload: Workload) -> None:
    await client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    await client.resource(DEVICECLASSES).create(objects.device_class())
    await client.resource(RESOURCECLAIMTEMPLATES, NAMESPACE).create(objects.template(workload.shape))
    for index in range(workload.nodes):
        await client.resource(NODES).create(objects.node(f"node-{index}"))
    for one in objects.slices(workload):
        await client.resource(RESOURCESLICES).create(one)
    claims = client.resource(RESOURCECLAIMS, NAMESPACE)
    for index in range(workload.init_claims):
        made = await claims.create(objects.claim(f"init-{index}"))
        await claims.update_status(objects.allocated(made, workload, index))
    for index in range(workload.pods // workload.pods_per_claim if workload.pods_per_claim else 0):
        await claims.create(objects.claim(f"claim-{index}"))


async def _clear(client: Client) -> None:
    """Take away what `_furnish` and the pods have made."""
    pods = client.resource(PODS, NAMESPACE)
    await pods.delete_collection(grace_period_seconds=0)
    await client.resource(RESOURCECLAIMS, NAMESPACE).delete_collection()
    for node in (await client.resource(NODES).list(label_selector=f"{objects.MARK}=true")).items:
        await client.resource(NODES).delete(node.metadata.name)
    await client.resource(RESOURCESLICES).delete_collection(field_selector=f"spec.driver={objects.DRIVER}")
    for ref, name in ((DEVICECLASSES, objects.CLASS), (NAMESPACES, NAMESPACE)):
        try:
            await client.resource(ref).delete(name)
        except StatusError as error:
            if not error.is_not_found:
                raise
    await _gone(client)


async def _gone(client: Client) -> None:
    """Wait until the namespace has gone, so that the next workload can make it again."""
    spaces = client.resource(NAMESPACES)
    found = await spaces.list(field_selector=f"metadata.name={NAMESPACE}")
    if not found.items:
        return
    async with spaces.watch(
        field_selector=f"metadata.name={NAMESPACE}", resource_version=found.resource_version
    ) as events:
        async for event in events:
            if event.type is EventType.DELETED:
                return
