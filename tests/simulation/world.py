"""A whole cluster in virtual time: every part is the real one; only containers pretend, and time jumps.

The parts talk to the API server through the in-process transport; `disturbed` puts faults in between. Everything
that is random comes from one seed, so a failing seed is a bug report.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef, Transport
from cathedra.clock import Clock, LoopClock
from cathedra.cluster.manifests import Manifest, read_manifests
from cathedra.cluster.parts.nodes import NodeEnvironment, RunningNode
from cathedra.controllers.controller_manager import ControllerManager
from cathedra.drivers.example.gpu import GpuOptions
from cathedra.drivers.gpu import GpuDriver
from cathedra.node.config import NodeConfig
from cathedra.releases import FeatureGates
from cathedra.scheduler.scheduler import Scheduler
from tests.running import beside
from tests.simulation.history import WATCHED, History

__all__ = ["Disturb", "World", "demo", "running"]

GATES = FeatureGates.for_release()


class Part(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None:
        """Run."""
        ...


Disturb = Callable[[Transport, Random], Transport]


class World:
    """Actions and observations of a test."""

    def __init__(self, server: APIServer, clock: Clock, random: Random, disturb: Disturb) -> None:
        self.server = server
        self.clock = clock
        self.random = random
        self.history = History(clock)
        self.client = Client(server.transport(), clock=clock)
        self._disturb = disturb

    def of(self, ref: ResourceRef[Any], namespace: str = "default") -> Any:
        """The verbs of the test's own user, whose connection has no faults."""
        return self.client.resource(ref, namespace if ref.namespaced else "")

    async def until(self, ref: ResourceRef[Any], name: str, done: Callable[[Any], bool], *, hours: float = 1.0) -> Any:
        """The object as soon as ``done`` is true of it.

        Raises:
            TimeoutError: it does not come to that.
        """
        async with asyncio.timeout(hours * 3600):
            while True:
                page = await self.of(ref).list(field_selector=f"metadata.name={name}")
                for obj in page.items:
                    if done(obj):
                        return obj
                stream = self.of(ref).watch(
                    field_selector=f"metadata.name={name}", resource_version=page.resource_version, bookmarks=False
                )
                async with stream as events:
                    async for event in events:
                        if done(event.object):
                            return event.object

    def part(self, user: str, groups: tuple[str, ...] = ("system:masters",)) -> Client:
        """A part's way to the API."""
        transport = self.server.transport(user, groups)
        return Client(self._disturb(transport, Random(self.random.getrandbits(64))), clock=self.clock)

    def controllers(self) -> ControllerManager:
        """All controllers, with eyes of their own."""
        client = self.part("system:kube-controller-manager")
        return ControllerManager(client, clock=self.clock, random=self.random, gates=GATES)

    def scheduler(self) -> Scheduler:
        """The scheduler, with eyes of its own."""
        return Scheduler(self.part("system:kube-scheduler"), clock=self.clock, random=self.random, gates=GATES)

    async def keep(self, make: Callable[[], Part], life: float | None) -> None:
        """Run a part; if it has a ``life``, kill it after that many seconds on average and start another one."""
        while True:
            async with beside(make().run()) as part:
                if life is None:
                    await part
                    return
                done, _ = await asyncio.wait({part}, timeout=self.random.expovariate(1 / life))
                if done:
                    part.result()
            await self.clock.sleep(self.random.uniform(0, 10))

    def node(self, name: str, gpus: int) -> RunningNode:
        """A simulated node with the example driver beside it."""
        driver = GpuDriver(GpuOptions(count=gpus))
        return RunningNode(
            NodeConfig(name=name, root=None, capacity={"cpu": "8", "memory": "32Gi", "pods": "110"}),
            [driver],
            NodeEnvironment(
                self.part(f"system:node:{name}", ("system:nodes",)), clock=self.clock, random=self.random, gates=GATES
            ),
            driver_client=lambda driver: self.part(f"system:serviceaccount:kube-system:{driver}"),
        )


@asynccontextmanager
async def running(
    seed: int,
    *,
    nodes: int = 2,
    gpus: int = 4,
    disturb: Disturb = lambda inner, _: inner,
    life: float | None = None,
) -> AsyncIterator[World]:
    """A cluster whose nodes are ready; with a ``life``, scheduler and controllers are killed again and again."""
    random = Random(seed)
    clock = LoopClock(asyncio.get_running_loop())
    server = await APIServer.open(ServerConfig(gates=GATES), clock=clock, random=random)
    world = World(server, clock, random, disturb)
    made = [world.node(f"node-{number}", gpus) for number in range(nodes)]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(world.history.follow(world.client, ref)) for ref in WATCHED]
            tasks += [group.create_task(world.keep(make, life)) for make in (world.controllers, world.scheduler)]
            tasks += [group.create_task(node.run()) for node in made]
            try:
                for node in made:
                    await node.wait_ready()
                yield world
            finally:
                for task in tasks:
                    task.cancel()
    finally:
        await server.close()


def demo() -> list[Manifest]:
    """A class, claims, a job, and pods that stay."""
    path = Path(__file__).with_name("workload.yaml")
    return read_manifests(path, GATES)
