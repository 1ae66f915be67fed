"""An advisor beside an API server in process, in virtual time; nothing schedules unless a test does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from cathedra.advisor.advisor import Advisor, AdvisorOptions
from cathedra.api.core.core_v1 import Binding, Event, Node, ObjectReference, Pod, PodCondition, ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import (
    DEVICECLASSES,
    EVENTS,
    NODES,
    PODGROUPS,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    SERVICEACCOUNTS,
)
from cathedra.clock import LoopClock, run_virtual
from cathedra.insight.reading.live import ServerFeatures
from cathedra.insight.reading.state import READ_KINDS
from cathedra.releases import FeatureGates
from tests.unit.inprocess import API
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_

T = TypeVar("T")

REFS: Any = {
    Node: NODES,
    Pod: PODS,
    PodGroup: PODGROUPS,
    DeviceClass: DEVICECLASSES,
    ResourceClaim: RESOURCECLAIMS,
    ResourceSlice: RESOURCESLICES,
}
GATES = FeatureGates.for_release()


class World:
    """The test's client, and the advisor."""

    def __init__(self, api: API, gates: FeatureGates) -> None:
        self.api, self.clock, self.client, self.gates = api, api.clock, api.client, gates
        self.running: list[asyncio.Task[None]] = []

    async def create(self, *objects: Any) -> None:
        """Create objects; nodes and claims with their status."""
        for one in objects:
            resource = self.client.resource(REFS[type(one)], one.metadata.namespace)
            made = await resource.create(one)
            if isinstance(one, (Node, ResourceClaim, Pod)) and one.status != type(one)().status:
                await resource.update(replace(made, status=one.status), subresource="status")

    def advise(self, **options: Any) -> Advisor:
        """Start an advisor, as a process that was just started."""
        kinds = tuple(kind for kind in READ_KINDS if not kind.gate or self.gates.get(kind.gate, False))
        advisor = Advisor(
            self.client,
            ServerFeatures(self.gates, kinds),
            source="the server",
            clock=self.clock,
            options=AdvisorOptions(**options),
        )
        self.running.append(asyncio.create_task(advisor.run()))
        return advisor

    async def stop(self) -> None:
        """End all advisors at once, as if they were killed."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()

    async def events(self) -> Sequence[Event]:
        """All events, the oldest first."""
        return (await self.client.resource(EVENTS).list()).items

    async def texts(self, name: str, kind: str = "") -> list[str]:
        """The messages of the events on objects of a name."""
        found = [one for one in await self.events() if one.involved_object.name == name]
        return [one.message for one in found if kind in ("", one.involved_object.kind)]

    async def until_event(self, name: str, count: int = 1) -> list[str]:
        """Wait until an object has events. Return their messages."""
        deadline = self.clock.monotonic() + 600
        while len(found := await self.texts(name)) < count:
            assert self.clock.monotonic() < deadline, found
            await self.clock.sleep(0.1)
        return found

    async def change(self, kind: Any, name: str, change: Callable[[Any], Any], *, status: bool = False) -> None:
        """Write what ``change`` makes of an object."""
        resource = self.client.resource(REFS[kind], "default" if REFS[kind].namespaced else "")
        changed = change(await resource.get(name))
        await resource.update(changed, subresource="status" if status else "")

    async def delete(self, kind: Any, name: str) -> None:
        """Delete an object at once."""
        await self.client.resource(REFS[kind], "default" if REFS[kind].namespaced else "").delete(
            name, grace_period_seconds=0
        )

    async def bind(self, name: str, to: str = "n1") -> None:
        """Bind a pod, as a scheduler does."""
        binding = Binding(
            metadata=ObjectMeta(namespace="default", name=name), target=ObjectReference(kind="Node", name=to)
        )
        await self.client.resource(PODS, "default").create_subresource(name, "binding", binding)

    async def refuse(self, name: str) -> None:
        """Refuse a pod, as a scheduler does."""
        condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
        await self.change(
            Pod,
            name,
            lambda pod: replace(pod, status=replace(pod.status, conditions=(condition,))),
            status=True,
        )


def with_world(body: Callable[[World], Awaitable[T]], gates: FeatureGates = GATES) -> T:
    """Run ``body`` beside a node with two GPUs."""

    async def main() -> T:
        clock = LoopClock(asyncio.get_running_loop())
        served = {"api/beta": True} if gates.gang_scheduling else {}
        config = ServerConfig(release=gates.release, gates=gates, service_accounts=True, runtime_config=served)
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        world = World(API(Client(server.transport(), clock=clock), clock, server.transport()), gates)
        # Each pod gets a token of its account, in a volume whose name is its own.
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await world.client.resource(SERVICEACCOUNTS, "default").create(account)
        await world.create(node("n1"), slice_("n1"), device_class("gpu"))
        try:
            return await body(world)
        finally:
            await world.stop()
            await server.close()

    return run_virtual(main())


def waiting(name: str, count: int = 1, **spec: Any) -> tuple[ResourceClaim, Pod]:
    """A pod, and the claim that it names."""
    entry = {"name": "gpu", "resourceClaimName": name}
    return claim(name, exactly(count=count)), pod(name, resourceClaims=[entry], **spec)
