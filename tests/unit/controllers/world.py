"""A small world for controllers: an API server, controllers under test, and virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from cathedra.api.core.core_v1 import Event, Pod
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import KubeStruct, replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client, ResourceClient
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import EVENTS, PODS
from cathedra.client.transport import ResourceRef
from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.identity.permissions import CONTROLLER_MANAGER, controller_user
from cathedra.controllers.controller import Controller, ControllerContext
from cathedra.controllers.controller_manager import CONTROLLERS, FIELD_MANAGER, account_of
from cathedra.releases import FeatureGates, behaviours
from tests.unit.controllers.calls import CallRecorder

T = TypeVar("T", bound=KubeStruct)
R = TypeVar("R")

GATES = FeatureGates.for_release()
QUIET_SECONDS = 1.5
"""Longer than the second after which a controller looks again for what it wrote."""


class World:
    """Verbs for the test's user, and the controllers that react."""

    def __init__(
        self,
        server: APIServer,
        gates: FeatureGates = GATES,
        user: str = "system:admin",
        through: Callable[[Any], Any] = lambda inner: inner,
    ) -> None:
        transport = server.transport(user)
        self._server = server
        self.clock = LoopClock(asyncio.get_running_loop())
        self.transport = transport
        self.client = Client(transport, clock=self.clock, field_manager="tester")
        manager = Client(through(server.transport_of(CONTROLLER_MANAGER)), clock=self.clock)
        informers = SharedInformers(manager, self.clock)
        self.context = ControllerContext(
            client=Client(transport, clock=self.clock, field_manager="kube-controller-manager"),
            informers=informers,
            clock=self.clock,
            random=random.Random(1),
            gates=gates,
        )

    def of(self, ref: ResourceRef[T], namespace: str = "default") -> ResourceClient[T]:
        return self.client.resource(ref, namespace if ref.namespaced else "")

    async def create(self, ref: ResourceRef[T], obj: T) -> T:
        """Create with its status, which a plain create would drop."""
        created = await self.of(ref, obj.metadata.namespace or "default").create(obj)
        status = getattr(obj, "status", None)
        if status is None or status == type(status)():
            return created
        wanted: Any = replace(created, status=status)
        return await self.of(ref, obj.metadata.namespace or "default").update_status(wanted)

    async def change(self, ref: ResourceRef[T], name: str, change: Callable[[T], T], *, status: bool = False) -> T:
        """Read, change, write."""
        resource = self.of(ref)
        changed = change(await resource.get(name))
        return await (resource.update_status(changed) if status else resource.update(changed))

    async def store(self, ref: ResourceRef[Any], obj: Any) -> None:
        """Store a state that no request makes, as one that a kill has left."""
        registry = self._server.context.registry
        table = registry.table(GroupResource(ref.group, ref.resource))
        key = "/".join(filter(None, (obj.metadata.namespace, obj.metadata.name)))
        await registry.put(table, key, table.get(key), obj)

    async def names(self, ref: ResourceRef[Any], namespace: str = "default") -> list[str]:
        return [obj.metadata.name for obj in await self.list(ref, namespace)]

    async def list(self, ref: ResourceRef[T], namespace: str = "default") -> tuple[T, ...]:
        return (await self.of(ref, namespace).list()).items

    async def finish(self, name: str, phase: str = "Succeeded") -> Pod:
        """End a pod, as its node would."""
        return await self.change(
            PODS, name, lambda pod: replace(pod, status=replace(pod.status, phase=phase)), status=True
        )

    async def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of every event."""
        return [(event.type, event.reason, event.message) for event in await self.list(EVENTS, "")]

    async def quiet(self) -> None:
        """Wait until nothing has been written for longer than a controller waits for the echo of a write of its own."""
        seen, since = self._server.revision, self.clock.monotonic()
        while self.clock.monotonic() - since < QUIET_SECONDS:
            await self.clock.sleep(0.05)
            if self._server.revision != seen:
                seen, since = self._server.revision, self.clock.monotonic()

    async def event_objects(self) -> tuple[Event, ...]:
        return await self.list(EVENTS, "")


def play(
    make: Callable[[ControllerContext], Controller] | tuple[Callable[[ControllerContext], Controller], ...],
    story: Callable[[World], Awaitable[R]],
    *,
    gates: FeatureGates = GATES,
    through: Callable[[Any], Any] = lambda inner: inner,
) -> R:
    """Run ``story`` in virtual time beside the controllers that ``make`` makes; ``through`` may wrap their ways to the
    server.

    Each controller is the service account that it is in a cluster, with the default role of that account and no more.

    Raises:
        AssertionError: a controller made a call that its role does not allow.
    """

    async def main() -> R:
        server = await open_server(gates)
        world = World(server, gates, through=through)
        makers = make if isinstance(make, tuple) else (make,)
        recorders = [CallRecorder(world.transport) for _ in makers]
        controllers = [
            one(_with_transport(world.context, through(recorder)))
            for one, recorder in zip(makers, recorders, strict=True)
        ]
        for controller, recorder in zip(controllers, recorders, strict=True):
            if controller.name in CONTROLLERS:
                recorder.inner = server.transport_of(controller_user(account_of(controller.name)))
        tasks = [asyncio.ensure_future(world.context.informers.run())]
        tasks += [asyncio.ensure_future(controller.run()) for controller in controllers]
        teller = asyncio.ensure_future(story(world))
        try:
            await asyncio.wait({teller, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            result = await teller
            for controller, recorder in zip(controllers, recorders, strict=True):
                recorder.check(controller.name)
            return result
        finally:
            for task in (teller, *tasks):
                task.cancel()
            await asyncio.gather(teller, *tasks, return_exceptions=True)
            await server.close()

    return run_virtual(main())


def _with_transport(context: ControllerContext, transport: Any) -> ControllerContext:
    client = Client(transport, clock=context.clock, field_manager=FIELD_MANAGER)
    return msgspec.structs.replace(context, client=client)


async def open_server(gates: FeatureGates) -> APIServer:
    """An API server with a memory store, in this event loop's time."""
    clock = LoopClock(asyncio.get_running_loop())
    groups = ("v1beta1", "v1alpha3") if gates.has(behaviours.GANGS_WITH_WORKLOADS) else ("v1alpha2",)
    served = ("resource.k8s.io/v1alpha3", *(f"scheduling.k8s.io/{version}" for version in groups))
    more = dict.fromkeys(served, True)
    config = ServerConfig(gates=gates, runtime_config=more, authorization=True)
    return await APIServer.open(config, clock=clock, random=random.Random(2))
