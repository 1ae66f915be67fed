"""A cluster of a release from 1.26 to 1.30 in virtual time: every part is the real one, only containers pretend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.classic.controller import ClassicController, ClassicDriver
from cathedra.classic.nodes.inprocess import InProcessNodeDriver
from cathedra.classic.nodes.plugin import NodeDriver
from cathedra.classic.resources import CLAIMS, CLASSES, TEMPLATES, classic_client
from cathedra.classic.testdriver import DRIVER_NAME, TestDriver, TestNodeDriver, TestResources
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.resources import CONFIGMAPS, PODS
from cathedra.client.transport import APICall, ResourceRef
from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.parts.generations import generation_of
from cathedra.cluster.parts.nodes import BareNode, NodeEnvironment
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions, served_resources
from cathedra.driver.files import MemoryFiles
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.simulated import RUN_SECONDS
from cathedra.releases import FeatureGates
from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies
from tests.unit.passedon import PassedOn

__all__ = ["World", "claim", "gates", "play", "pod", "resource_class", "template"]

T = TypeVar("T")
OTHER = "other-driver.example.com"
NEGOTIATED = ("Pod", "PodScheduling", "PodSchedulingContext", "ResourceClaim")
WRITES = ("create", "update", "patch", "delete", "delete_collection")


def gates(release: str, **overrides: bool) -> FeatureGates:
    """The release's gates, with Dynamic Resource Allocation on."""
    return FeatureGates.for_release(release, {"DynamicResourceAllocation": True, **overrides})


def version_of(release: str) -> str:
    """The version of resource.k8s.io that the release has."""
    return "v1alpha1" if release == "1.26" else "v1alpha2"


def resource_class(name: str = "example", driver: str = DRIVER_NAME, **more: Any) -> v1alpha2.ResourceClass:
    """A class of the test driver's."""
    return from_dict(v1alpha2.ResourceClass, {"metadata": {"name": name}, "driverName": driver, **more})


def claim(name: str = "c", *, class_name: str = "example", **spec: Any) -> v1alpha2.ResourceClaim:
    """A claim in the namespace default."""
    metadata = {"name": name, "namespace": "default"}
    return from_dict(v1alpha2.ResourceClaim, {"metadata": metadata, "spec": {"resourceClassName": class_name, **spec}})


def template(name: str = "t", *, class_name: str = "example", **spec: Any) -> v1alpha2.ResourceClaimTemplate:
    """A template in the namespace default."""
    metadata = {"name": name, "namespace": "default"}
    wanted = {"resourceClassName": class_name, **spec}
    return from_dict(v1alpha2.ResourceClaimTemplate, {"metadata": metadata, "spec": {"spec": wanted}})


def pod(name: str = "p", *, runs: int | None = None, **entries: str) -> Pod:
    """A pod that uses the claims (``c``) or templates (``t:c``) that ``entries`` name; it ends after ``runs``."""
    claims = [{"name": entry, "source": _source(text)} for entry, text in entries.items()]
    annotations = {} if runs is None else {RUN_SECONDS: str(runs)}
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": entry} for entry in entries]}}
    spec = {"containers": [container], "resourceClaims": claims, "restartPolicy": "Never"}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return from_dict(Pod, {"metadata": metadata, "spec": spec})


def _source(text: str) -> dict[str, str]:
    if text.startswith("t:"):
        return {"resourceClaimTemplateName": text.removeprefix("t:")}
    return {"resourceClaimName": text}


class DyingTransport(PassedOn):
    """A part's way to the API that hangs before one of its writes, for a kill at that moment."""

    def __init__(self, inner: Any, writes: int) -> None:
        self._inner = inner
        self._left = writes
        self.died = asyncio.Event()

    async def call(self, call: APICall) -> Any:
        if call.verb in WRITES:
            if not self._left:
                self.died.set()
                await asyncio.get_running_loop().create_future()
            self._left -= 1
        return await self._inner.call(call)


class WatchedTransport(PassedOn):
    """A transport of a part that notifies the world of each write before the part has the response."""

    def __init__(self, inner: Any, world: World) -> None:
        self._inner = inner
        self._world = world

    async def call(self, call: APICall) -> Any:
        outcome = await self._inner.call(call)
        if call.verb in WRITES:
            await self._world.written(call.ref)
        return outcome


class World:
    """Actions and observations of a test."""

    def __init__(self, server: APIServer, release: str, clock: LoopClock, random: Random) -> None:
        self.server = server
        self.clock = clock
        self.random = random
        self.gates = gates(release)
        self.generation = generation_of(self.gates)
        self.denials = Denials(clock)
        """Calls of parts that their default roles do not allow."""
        self.dying: dict[str, DyingTransport] = {}
        """By user: the number of writes that a part has left."""
        self.client = classic_client(Client(server.transport("system:admin", ("system:masters",)), clock=clock))
        self._writes_left = 0
        self._interruption: Callable[[], Awaitable[None]] | None = None
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def part(self, user: str, groups: tuple[str, ...] = ("system:masters",)) -> Client:
        """A part's way to the API."""
        transport = self.dying[user] if user in self.dying else self._transport(user, groups)
        return classic_client(Client(WatchedTransport(transport, self), clock=self.clock))

    def _transport(self, user: str, groups: tuple[str, ...]) -> Any:
        return self.server.transport_of(UserInfo(user, groups), self.denials)

    def let_die(self, user: str, writes: int) -> asyncio.Event:
        """The next part of that user hangs after a number of further writes; the event is set when it does."""
        self.dying[user] = DyingTransport(self._transport(user, ("system:masters",)), writes)
        return self.dying[user].died

    def interrupt(self, writes: int, interruption: Callable[[], Awaitable[None]]) -> None:
        """The interruption comes once, after a number of writes of all parts to pods, claims and scheduling
        contexts."""
        self._writes_left, self._interruption = writes, interruption

    @property
    def interrupted(self) -> bool:
        """True if the interruption has come."""
        return self._interruption is None

    async def written(self, ref: ResourceRef[Any]) -> None:
        """A part has written."""
        if self._interruption is None or ref.kind not in NEGOTIATED:
            return
        self._writes_left -= 1
        if not self._writes_left:
            interruption, self._interruption = self._interruption, None
            await interruption()

    def of(self, ref: ResourceRef[Any]) -> Any:
        """The verbs of the test's own user."""
        return self.client.resource(ref, "default" if ref.namespaced else "")

    async def create(self, *objects: Any) -> None:
        """Create objects of the kinds that tests need."""
        refs: Mapping[type[Any], ResourceRef[Any]] = {ref.type: ref for ref in (CLAIMS, CLASSES, TEMPLATES, PODS)}
        for obj in objects:
            await self.of(refs.get(type(obj), CONFIGMAPS)).create(obj)

    async def until(
        self, ref: ResourceRef[Any], name: str, done: Callable[[Any], bool], *, seconds: float = 600.0
    ) -> Any:
        """The object as soon as ``done`` is true of it; the test fails after the given virtual seconds."""
        deadline = self.clock.monotonic() + seconds
        while True:
            page = await self.of(ref).list(field_selector=f"metadata.name={name}")
            found = next((obj for obj in page.items if done(obj)), None)
            if found is not None:
                return found
            assert self.clock.monotonic() < deadline, list(page.items)
            await self.clock.sleep(0.05)

    async def until_gone(self, ref: ResourceRef[Any], name: str, *, seconds: float = 600.0) -> None:
        """Wait until there is no such object."""
        deadline = self.clock.monotonic() + seconds
        while (await self.of(ref).list(field_selector=f"metadata.name={name}")).items:
            assert self.clock.monotonic() < deadline, f"{name} is still there"
            await self.clock.sleep(0.05)

    async def bound(self, name: str = "p", **more: Any) -> Pod:
        """The pod once it has a node."""
        found: Pod = await self.until(PODS, name, lambda obj: bool(obj.spec.node_name), **more)
        return found

    async def running(self, name: str = "p", **more: Any) -> Pod:
        """The pod once it runs."""
        found: Pod = await self.until(PODS, name, lambda obj: obj.status.phase == "Running", **more)
        return found

    async def running_or_interrupted(self, name: str = "p") -> bool:
        """Wait until the pod runs or the interruption has come; whether it has."""
        while not self.interrupted:
            page = await self.of(PODS).list(field_selector=f"metadata.name={name}")
            if any(pod.status.phase == "Running" for pod in page.items):
                # The negotiation's last writes follow the binding.
                await self.clock.sleep(5)
                break
            await self.clock.sleep(0.05)
        return self.interrupted

    async def messages(self, reason: str) -> list[str]:
        """Return the messages of events of that reason, oldest first."""
        from cathedra.client.resources import EVENTS

        events = (await self.of(EVENTS).list()).items
        return [event.message for event in events if event.reason == reason]

    # --- parts

    def start(self, name: str, job: Awaitable[None]) -> None:
        """Run a part under a name."""
        self.tasks[name] = asyncio.ensure_future(job)

    async def stop(self, name: str) -> None:
        """End a part as a kill would: between any two of its writes."""
        task = self.tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def start_scheduler(self) -> None:
        """The scheduler, with eyes of its own."""
        scheduler = Scheduler(
            self.part("system:kube-scheduler", ()),
            clock=self.clock,
            random=self.random,
            gates=self.gates,
            dependencies=SchedulerDependencies(make_claim_plugin=self.generation.make_claim_plugin),
        )
        self.start("scheduler", scheduler.run())

    def start_controllers(self) -> None:
        """The controllers, with eyes of their own."""
        manager = ControllerManager(
            self.part("system:kube-controller-manager", ()),
            clock=self.clock,
            random=self.random,
            gates=self.gates,
            options=ControllerOptions(
                client_of=lambda account: self.part(f"system:serviceaccount:kube-system:{account}", ()),
                served=served_resources(self.gates, tuple(self.server.catalog)),
                replaced=self.generation.controllers,
            ),
        )
        self.start("controllers", manager.run())

    def start_driver(self, driver: ClassicDriver, name: str = DRIVER_NAME, **options: Any) -> ClassicController:
        """The controller of a driver."""
        controller = ClassicController(self.part(name), name, driver, clock=self.clock, **options)
        self.start(name, controller.run())
        return controller

    async def start_test_driver(self, name: str = DRIVER_NAME, **resources: Any) -> TestDriver:
        """The test driver's controller, which counts what was allocated before."""
        driver = TestDriver(self.part(name), name, TestResources(**resources), random=self.random)
        await driver.recover()
        self.start_driver(driver, name)
        return driver

    async def start_node(self, name: str, drivers: Mapping[str, NodeDriver] | None = None) -> None:
        """A simulated node with the test driver's plugin."""
        api = self.part(f"system:node:{name}", ("system:nodes",))
        if drivers is None:
            drivers = {
                driver: TestNodeDriver(driver, name, cdi_dir=Path("/cdi"), files=MemoryFiles())
                for driver in (DRIVER_NAME, OTHER)
            }
        node = BareNode(
            NodeConfig(name=name, root=None, capacity={"cpu": "8", "memory": "32Gi", "pods": "110"}),
            NodeEnvironment(api, self.clock, self.random, self.gates),
            make_dial=None,
            plugins={driver: InProcessNodeDriver(api, driver, one) for driver, one in drivers.items()},
        )
        self.start(name, node.run())
        await node.wait_ready()


@asynccontextmanager
async def world(release: str, *, nodes: int = 1, seed: int = 1) -> AsyncIterator[World]:
    """A cluster with ready nodes, scheduler and controllers; drivers are the test's."""
    clock, random = LoopClock(asyncio.get_running_loop()), Random(seed)
    opened = gates(release)
    config = ServerConfig(
        release=release,
        gates=opened,
        definitions=generation_of(opened).definitions,
        authorization=True,
        runtime_config={f"resource.k8s.io/{version_of(release)}": True},
    )
    server = await APIServer.open(config, clock=clock, random=random)
    made = World(server, release, clock, random)
    try:
        made.start_controllers()
        made.start_scheduler()
        for number in range(nodes):
            await made.start_node(f"node-{number}")
        yield made
    finally:
        for name in list(made.tasks):
            await made.stop(name)
        await server.close()
    assert not made.denials.counts


def play(
    release: str, story: Callable[[World], Awaitable[T]], *, nodes: int = 1, seed: int = 1, virtual: bool = True
) -> T:
    """Run a story in a cluster of the release, in virtual time unless it needs sockets."""

    async def main() -> T:
        async with world(release, nodes=nodes, seed=seed) as made:
            return await story(made)

    return run_virtual(main()) if virtual else asyncio.run(main())
