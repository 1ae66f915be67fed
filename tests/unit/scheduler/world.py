"""A scheduler at work on a real API server in process, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cathedra.api.core.core_v1 import Event, Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client import resources
from cathedra.client.client import Client, ResourceClient
from cathedra.client.resources import EVENTS, PODS, RESOURCECLAIMS
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock, LoopClock, run_virtual
from cathedra.cluster.identity.permissions import SCHEDULER
from cathedra.kinds.served import all_definitions
from cathedra.offload import ComputeThread
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION, SchedulerConfiguration
from cathedra.scheduler.metrics import SchedulerMetrics
from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies
from tests.unit.apiserver.plain_definitions import plain_definitions
from tests.unit.controllers.calls import CallRecorder

__all__ = ["World", "play"]

REFS: dict[type, ResourceRef[Any]] = {ref.type: ref for ref in vars(resources).values() if isinstance(ref, ResourceRef)}


class World:
    """Actions and observations of a test."""

    def __init__(self, client: Client, scheduler: Scheduler, running: asyncio.Future[None]) -> None:
        self.client = client
        self.scheduler = scheduler
        self._running = running

    async def stop(self) -> None:
        """End the scheduler, and wait until it has ended."""
        self._running.cancel()
        await asyncio.wait((self._running,))

    def api(self, kind: type[Any]) -> ResourceClient[Any]:
        ref = REFS[kind]
        return self.client.resource(ref, "default" if ref.namespaced else "")

    async def create(self, *objects: KubeStruct) -> None:
        for obj in objects:
            await self.api(type(obj)).create(obj)

    async def elapse(self, seconds: float) -> None:
        """Let time pass that the scheduler itself counts: a back-off, a timeout."""
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], Awaitable[object]], seconds: float = 600.0) -> None:
        """Wait until ``condition`` returns a true value; fail the test after ``seconds`` of virtual time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not await condition():
            assert asyncio.get_running_loop().time() < deadline, f"{condition} has not come true"
            await asyncio.sleep(0.01)

    async def bound(self, *names: str) -> None:
        """Wait until these pods have nodes."""

        async def all_bound() -> bool:
            return all([await self.node_of(name) for name in names])

        await self.until(all_bound)

    async def quiet(self) -> dict[str, int]:
        """Wait until the scheduler has nothing left to try and to write, and answer with its statistics."""

        async def idle() -> bool:
            await asyncio.sleep(0.02)
            now = self.scheduler.statistics()
            return not any(now[area] for area in ("active", "backoff", "inflight", "binding"))

        await self.until(idle)
        return self.scheduler.statistics()

    async def pod(self, name: str) -> Pod:
        return await self.client.resource(PODS, "default").get(name)

    async def claim(self, name: str) -> ResourceClaim:
        return await self.client.resource(RESOURCECLAIMS, "default").get(name)

    async def node_of(self, name: str) -> str:
        return (await self.pod(name)).spec.node_name

    async def condition(self, name: str) -> tuple[str, str]:
        """Reason and message of the pod's PodScheduled condition."""
        conditions = (await self.pod(name)).status.conditions
        return next(((c.reason, c.message) for c in conditions if c.type == "PodScheduled"), ("", ""))

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and message of all events of a pod."""
        page = await self.client.resource(EVENTS, "default").list()
        found: list[Event] = [event for event in page.items if event.involved_object.name == name]
        return [(event.reason, event.message) for event in found]

    async def devices(self, name: str) -> list[tuple[str, str]]:
        """Pool and device of everything that a claim got."""
        allocation = (await self.claim(name)).status.allocation
        return [] if allocation is None else [(r.pool, r.device) for r in allocation.devices.results]


def play(
    body: Callable[[World], Awaitable[None]],
    *,
    gates: dict[str, bool] | None = None,
    release: str = "1.37",
    transport: Callable[[Any], Any] = lambda inner: inner,
    configuration: SchedulerConfiguration = DEFAULT_CONFIGURATION,
    metrics: SchedulerMetrics | None = None,
    served: Sequence[str] | None = None,
    clock: Callable[[asyncio.AbstractEventLoop], Clock] = LoopClock,
    compute: type[ComputeThread] = ComputeThread,
) -> None:
    """Run ``body`` beside a scheduler; ``transport`` may wrap the scheduler's way to the server.

    With ``served`` the API server is that of the release, with all rules for objects and these versions switched on;
    otherwise it takes every kind in its newest version as it comes. ``clock`` makes the scheduler's clock,
    ``compute`` the class of its thread.
    """

    async def main() -> None:
        time = LoopClock(asyncio.get_running_loop())
        chosen = FeatureGates.for_release(release, gates or {})
        config = ServerConfig(gates=chosen, definitions=plain_definitions(), authorization=True)
        if served is not None:
            real = all_definitions(chosen)
            config = ServerConfig(
                release=release,
                gates=chosen,
                definitions=real,
                runtime_config=dict.fromkeys(served, True),
                authorization=True,
            )
        server = await APIServer.open(config, clock=time, random=random.Random(1))
        client = Client(server.transport(), clock=time)
        recorder = CallRecorder(server.transport_of(SCHEDULER))
        own = Client(transport(recorder), clock=time)
        scheduling = clock(asyncio.get_running_loop())
        scheduler = Scheduler(
            own,
            clock=scheduling,
            random=random.Random(2),
            gates=chosen,
            configuration=configuration,
            dependencies=SchedulerDependencies(metrics=metrics, compute=compute(monotonic=scheduling.monotonic)),
        )
        running = asyncio.ensure_future(scheduler.run())
        try:
            await body(World(client, scheduler, running))
            assert not recorder.denied, f"the scheduler lacks rights: {recorder.denied}"
        finally:
            ended = running.done()
            running.cancel()
            outcome = (await asyncio.gather(running, return_exceptions=True))[0]
            await server.close()
        if ended and isinstance(outcome, Exception):
            raise outcome

    run_virtual(main())
