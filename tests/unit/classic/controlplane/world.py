"""A cluster of 1.31 in virtual time: every part is the real one, only containers pretend."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.classic.controlplane import kinds
from cathedra.classic.controlplane.controller import ControlPlaneController, control_plane_client
from cathedra.classic.controlplane.kinds import ControlledClaim, ControlledClass, ControlledTemplate
from cathedra.classic.controlplane.testcontroller import ControlPlaneTestDriver, ControlPlaneTestPlugin
from cathedra.classic.testdriver import DRIVER_NAME, TestResources
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.client.transport import ResourceRef
from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.config import DriverConfig
from cathedra.cluster.parts.generations import generation_of
from cathedra.cluster.parts.nodes import BareNode, InProcessPlugin, NodeEnvironment, driver_for
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions, served_resources
from cathedra.driver.driver import Driver
from cathedra.driver.files import MemoryFiles
from cathedra.driver.run import DriverPlacement, DriverRunner
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.simulated import RUN_SECONDS
from cathedra.releases import FeatureGates
from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies

__all__ = ["GPU", "World", "claim", "device_class", "play", "pod", "template"]

GPU = "gpu.example.com"
"""The example driver, whose devices the scheduler allocates."""
ON = {"DynamicResourceAllocation": True, "DRAControlPlaneController": True}


def device_class(name: str = "ctl", **spec: Any) -> ControlledClass:
    """A class, of all devices unless it selects some."""
    return kinds.class_to_hub(from_dict(v1alpha3.DeviceClass, {"metadata": {"name": name}, "spec": spec}))


def _spec(class_name: str, controller: str, more: dict[str, Any]) -> dict[str, Any]:
    devices = {"requests": [{"name": "r", "deviceClassName": class_name}], **more}
    return {"devices": devices} | ({"controller": controller} if controller else {})


def claim(
    name: str = "c", *, class_name: str = "ctl", controller: str = DRIVER_NAME, **devices: Any
) -> ControlledClaim:
    """A claim in the namespace default."""
    metadata = {"name": name, "namespace": "default"}
    wanted = {"metadata": metadata, "spec": _spec(class_name, controller, devices)}
    return kinds.claim_to_hub(from_dict(v1alpha3.ResourceClaim, wanted))


def template(name: str = "t", *, class_name: str = "ctl", controller: str = DRIVER_NAME) -> ControlledTemplate:
    """A template in the namespace default."""
    metadata = {"name": name, "namespace": "default"}
    wanted = {"metadata": metadata, "spec": {"spec": _spec(class_name, controller, {})}}
    return kinds.template_to_hub(from_dict(v1alpha3.ResourceClaimTemplate, wanted))


def pod(name: str = "p", *, runs: int | None = None, node: str = "", **entries: str) -> Pod:
    """A pod that uses the claims (``c``) or templates (``t:c``) that ``entries`` name; it ends after ``runs``."""
    claims = [
        {"name": entry, "resourceClaimTemplateName": text.removeprefix("t:")}
        if text.startswith("t:")
        else {"name": entry, "resourceClaimName": text}
        for entry, text in entries.items()
    ]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": entry} for entry in entries]}}
    spec = {"containers": [container], "resourceClaims": claims, "restartPolicy": "Never", "nodeName": node}
    annotations = {} if runs is None else {RUN_SECONDS: str(runs)}
    return from_dict(
        Pod, {"metadata": {"name": name, "namespace": "default", "annotations": annotations}, "spec": spec}
    )


class World:
    """Actions and observations of a test."""

    def __init__(self, server: APIServer, gates: FeatureGates, clock: LoopClock) -> None:
        self.server = server
        self.clock = clock
        self.random = Random(1)
        self.gates = gates
        self.generation = generation_of(gates)
        self.denials = Denials(clock)
        """Calls of parts that their default roles do not allow."""
        self.client = self.part("system:admin")
        self.tasks: list[asyncio.Task[None]] = []

    def part(self, user: str, groups: tuple[str, ...] = ("system:masters",)) -> Client:
        """A part's way to the API."""
        return control_plane_client(
            Client(self.server.transport_of(UserInfo(user, groups), self.denials), clock=self.clock)
        )

    def of(self, ref: ResourceRef[Any]) -> Any:
        """The verbs of the test's own user."""
        return self.client.resource(ref, "default" if ref.namespaced else "")

    async def create(self, *objects: Any) -> None:
        """Create objects of the kinds that tests need."""
        refs = {
            ControlledClass: DEVICECLASSES,
            ControlledClaim: RESOURCECLAIMS,
            ControlledTemplate: RESOURCECLAIMTEMPLATES,
            Pod: PODS,
        }
        for obj in objects:
            await self.of(refs[type(obj)]).create(obj)

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
            assert self.clock.monotonic() < deadline, (list(page.items), await self.messages("FailedScheduling"))
            await self.clock.sleep(0.05)

    async def until_gone(self, ref: ResourceRef[Any], name: str, *, seconds: float = 600.0) -> None:
        """Wait until there is no such object."""
        deadline = self.clock.monotonic() + seconds
        while (await self.of(ref).list(field_selector=f"metadata.name={name}")).items:
            assert self.clock.monotonic() < deadline, f"{name} is still there"
            await self.clock.sleep(0.05)

    async def running(self, name: str = "p", **more: Any) -> Pod:
        """The pod once it runs."""
        found: Pod = await self.until(PODS, name, lambda obj: obj.status.phase == "Running", **more)
        return found

    async def messages(self, reason: str) -> list[str]:
        """Return the messages of events of that reason, oldest first."""
        from cathedra.client.resources import EVENTS

        events = (await self.of(EVENTS).list()).items
        return [event.message for event in events if event.reason == reason]

    def start(self, job: Awaitable[None]) -> None:
        """Run a part until the end of the test."""
        self.tasks.append(asyncio.ensure_future(job))

    async def start_parts(self, nodes: int) -> None:
        """Scheduler, controllers, nodes; each with eyes of its own."""
        scheduler = Scheduler(
            self.part("system:kube-scheduler", ()),
            clock=self.clock,
            random=self.random,
            gates=self.gates,
            dependencies=SchedulerDependencies(make_claim_plugin=self.generation.make_claim_plugin),
        )
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
        self.start(scheduler.run())
        self.start(manager.run())
        for number in range(nodes):
            await self.start_node(f"node-{number}")

    async def start_node(self, name: str) -> None:
        """A simulated node with the example driver, and the test driver's plugin beside it."""
        api = self.part(f"system:node:{name}", ("system:nodes",))
        gpu = self._runner(driver_for(DriverConfig(name=GPU, gpus=2), self.gates), name)
        test = self._runner(ControlPlaneTestPlugin(DRIVER_NAME), name)
        test.service.open()
        node = BareNode(
            NodeConfig(name=name, root=None, capacity={"cpu": "8", "memory": "32Gi", "pods": "110"}),
            NodeEnvironment(api, self.clock, self.random, self.gates),
            make_dial=None,
            plugins={GPU: InProcessPlugin(gpu.service), DRIVER_NAME: InProcessPlugin(test.service)},
        )
        self.start(node.run())
        await node.wait_ready()
        self.start(gpu.run())
        await gpu.wait_ready()

    def _runner(self, driver: Driver, node: str) -> DriverRunner:
        return DriverRunner(
            driver,
            self.part(driver.name),
            DriverPlacement(node_name=node, plugin_dir=Path("/plugins"), files=MemoryFiles(), boot_id="simulated"),
            clock=self.clock,
            random=self.random,
        )

    async def start_test_driver(self, name: str = DRIVER_NAME, **resources: Any) -> ControlPlaneTestDriver:
        """The test driver's controller, which counts what was allocated before."""
        driver = ControlPlaneTestDriver(self.part(name), name, TestResources(**resources))
        await driver.recover()
        self.start(ControlPlaneController(self.part(name), name, driver, clock=self.clock).run())
        return driver


def play(story: Callable[[World], Awaitable[None]], *, nodes: int = 1, **gates: bool) -> None:
    """Run a story in a cluster of 1.31, in virtual time."""

    async def main() -> None:
        opened = FeatureGates.for_release("1.31", ON | gates)
        clock = LoopClock(asyncio.get_running_loop())
        config = ServerConfig(
            release="1.31",
            gates=opened,
            definitions=generation_of(opened).definitions,
            authorization=True,
            runtime_config={"resource.k8s.io/v1alpha3": True},
        )
        server = await APIServer.open(config, clock=clock, random=Random(1))
        world = World(server, opened, clock)
        try:
            await world.start_parts(nodes)
            await story(world)
        finally:
            for task in world.tasks:
                task.cancel()
            await asyncio.gather(*world.tasks, return_exceptions=True)
            await server.close()
        assert not world.denials.counts

    run_virtual(main())
