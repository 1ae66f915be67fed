"""A small world for drivers: an API server, a node, and claims that are allocated by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cathedra.api import resource
from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import RawJSON, replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import Clock, LoopClock, SystemClock, run_virtual
from cathedra.driver import Claim, Device, Driver, DriverRunner, Edits, MemoryFiles, Prepared, PreparedClaim, Ref
from cathedra.driver.files import Files
from cathedra.driver.run import DriverPlacement
from cathedra.releases import FeatureGates

R = TypeVar("R")

NODE = "node-a"
BETAS = {"1.32": ("v1beta1",), "1.33": ("v1beta1", "v1beta2")}
"""API versions that releases without v1 serve on request."""
DRIVER = "lamp.example.com"
SHARES = ("0d6b1f0e-8c3f-4c55-9f0d-0a6a4ba0f7a1", "5c3b7d1e-2f65-4c08-8c58-0a4c4f7f3b52")
"""Share IDs, as the allocator makes them."""


class World:
    """The API as the test sees it."""

    def __init__(self, server: APIServer, clock: Clock) -> None:
        self.server = server
        self.clock = clock
        self.client = Client(server.transport(), clock=clock, field_manager="tester")

    @staticmethod
    async def open(clock: Clock, release: str = "1.37", **gates: bool) -> World:
        served = {f"resource.k8s.io/{version}": True for version in BETAS.get(release, ())}
        config = ServerConfig(gates=FeatureGates.for_release(release, gates), runtime_config=served)
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        world = World(server, clock)
        await world.client.resource(NODES).create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=NODE)))
        namespaces = world.client.resource(NAMESPACES)
        default = await namespaces.get("default")
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await namespaces.update(replace(default, metadata=replace(default.metadata, labels=labels)))
        return world

    async def allocate(
        self,
        name: str,
        *devices: str | resource.DeviceRequestAllocationResult,
        config: Sequence[resource.DeviceAllocationConfiguration] = (),
        annotations: dict[str, str] | None = None,
    ) -> Ref:
        """Make a claim that holds ``devices`` (names in the node's pool, or whole results)."""
        claims = self.client.resource(RESOURCECLAIMS, "default")
        results = tuple(result(device) if isinstance(device, str) else device for device in devices)
        created = await claims.create(
            resource.ResourceClaim(
                metadata=meta_v1.ObjectMeta(name=name, annotations=annotations or {}),
                spec=resource.ResourceClaimSpec(devices=resource.DeviceClaim(requests=_requests(results))),
            )
        )
        allocation = resource.AllocationResult(
            devices=resource.DeviceAllocationResult(results=results, config=tuple(config))
        )
        await claims.update_status(replace(created, status=resource.ResourceClaimStatus(allocation=allocation)))
        return Ref("default", name, created.metadata.uid)

    async def delete_claim(self, name: str) -> None:
        await self.client.resource(RESOURCECLAIMS, "default").delete(name)

    async def claim(self, name: str) -> resource.ResourceClaim:
        return await self.client.resource(RESOURCECLAIMS, "default").get(name)

    async def slices(self) -> list[resource.ResourceSlice]:
        page = await self.client.resource(RESOURCESLICES).list()
        return sorted(page.items, key=lambda s: s.metadata.name)

    def runner(self, driver: Driver, *, files: Files | None = None, **options: Any) -> DriverRunner:
        """Return ``driver`` on the node; by default without sockets and with files in memory."""
        directory = options.pop("directory", Path("/data"))
        through = options.pop("through", lambda inner: inner)
        observer = options.pop("observer", None)
        return DriverRunner(
            driver,
            Client(through(self.server.transport()), clock=self.clock, field_manager=driver.name),
            DriverPlacement(
                node_name=NODE,
                plugin_dir=directory / "plugins" / driver.name,
                cdi_dir=directory / "cdi",
                files=MemoryFiles() if files is None else files,
                **{"boot_id": "boot-1", **options},
            ),
            clock=self.clock,
            random=random.Random(2),
            observer=observer,
        )


class Lamps(Driver):
    """A driver that records its calls."""

    name = DRIVER

    def __init__(self, count: int = 4) -> None:
        self.count = count
        self.calls: list[str] = []
        self.errors: list[str] = []
        self.faults: list[BaseException] = []

    def devices(self) -> list[Device]:
        return [Device(f"lamp-{i}", attributes={"index": i}) for i in range(self.count)]

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        self.calls.append(f"prepare {claim.name}")
        if self.faults:
            raise self.faults.pop(0)
        for lamp in claim.allocations:
            yield lamp.prepared(Edits(env={lamp.device.upper().replace("-", "_"): "on"}), metadata={"kind": "lamp"})

    def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        self.calls.append(f"unprepare {ref.name} {[d.device for d in prepared.devices]}")
        if self.faults:
            raise self.faults.pop(0)

    def on_error(self, error: Exception, message: str, *, recoverable: bool) -> None:
        self.errors.append(f"{message}: {error}")


def result(device: str, request: str = "lamp", **changes: Any) -> resource.DeviceRequestAllocationResult:
    values = {"driver": DRIVER, "pool": NODE, **changes}
    return resource.DeviceRequestAllocationResult(request=request, device=device, **values)


def _requests(results: Sequence[resource.DeviceRequestAllocationResult]) -> tuple[resource.DeviceRequest, ...]:
    """The requests to which ``results`` are an answer."""
    found: dict[str, resource.DeviceRequest] = {}
    for each in results:
        name, _, subrequest = each.request.partition("/")
        if subrequest:
            choice = resource.DeviceSubRequest(name=subrequest, device_class_name="class")
            found[name] = resource.DeviceRequest(name=name, first_available=(choice,))
        else:
            exactly = resource.ExactDeviceRequest(device_class_name="class", admin_access=each.admin_access)
            found[name] = resource.DeviceRequest(name=name, exactly=exactly)
    return tuple(found.values())


def opaque(
    parameters: Any, *, driver: str = DRIVER, requests: Sequence[str] = (), source: str = "FromClaim"
) -> resource.DeviceAllocationConfiguration:
    return resource.DeviceAllocationConfiguration(
        source=source,
        requests=tuple(requests),
        opaque=resource.OpaqueDeviceConfiguration(driver=driver, parameters=RawJSON.of(parameters)),
    )


def in_virtual_time(test: Callable[[World], Awaitable[R]], release: str = "1.37", **gates: bool) -> R:
    """Run ``test`` in a new world of that release with these feature gates, in virtual time."""

    async def main() -> R:
        world = await World.open(LoopClock(asyncio.get_running_loop()), release, **gates)
        return await test(world)

    return run_virtual(main())


async def in_real_time() -> World:
    """A world for tests with sockets."""
    return await World.open(SystemClock())


class running:  # noqa: N801
    """A runner at work for the duration of the context."""

    def __init__(self, runner: DriverRunner) -> None:
        self.runner = runner

    async def __aenter__(self) -> DriverRunner:
        self.task = asyncio.ensure_future(self.runner.run())
        ready = asyncio.ensure_future(self.runner.slices.wait_published())
        await asyncio.wait((self.task, ready), return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            ready.cancel()
            await self.task
        return self.runner

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))
