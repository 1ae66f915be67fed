"""A fabric that only keeps notes, its controller, and claims that the test allocates in the scheduler's place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cathedra.api import resource
from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector, make_elector
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver import Attachment, Claim, Device, FabricController, FabricDriver, Pool, Ref
from cathedra.driver.claim import ClaimedDevice
from cathedra.driver.fabric.controller import TIMING
from tests.running import beside
from tests.unit.driver.world import World, result

NAME = "switch.example.com"
POOL = "rack-1"


@dataclass
class Level:
    """Parameters: the brightness of a lamp."""

    percent: int = 100


class Switch(FabricDriver):
    """Records attachments by node, and its calls."""

    name = NAME

    def __init__(self, count: int = 4) -> None:
        self.count = count
        self.ports: dict[str, str] = {}
        """Device → the node that it is attached to."""
        self.calls: list[str] = []
        self.errors: list[str] = []
        self.faults: list[BaseException] = []
        self.open = asyncio.Event()
        """Attaching waits for it."""
        self.open.set()

    def pools(self) -> Pool:
        return Pool(name=POOL, devices=[Device(f"gpu-{i}") for i in range(self.count)])

    async def attach(self, claim: Claim, device: ClaimedDevice, node: str) -> None:
        self.calls.append(f"attach {device.device} to {node} for {claim.name}")
        assert self.ports.get(device.device, node) == node, "attached to two nodes"
        self.ports[device.device] = node
        await self.open.wait()
        if self.faults:
            raise self.faults.pop(0)

    async def detach(self, ref: Ref, attachment: Attachment) -> None:
        self.calls.append(f"detach {attachment.device} from {attachment.node} for {ref.name}")
        if self.faults:
            raise self.faults.pop(0)
        if self.ports.get(attachment.device) == attachment.node:
            del self.ports[attachment.device]

    def on_error(self, error: Exception, message: str, *, recoverable: bool) -> None:
        self.errors.append(f"{message}: {error}")


def client_of(world: World, through: Callable[[Any], Any] = lambda inner: inner) -> Client:
    return Client(through(world.server.transport()), clock=world.clock, field_manager=NAME)


def elector_of(world: World, seed: int = 1) -> LeaderElector:
    return make_elector(
        client_of(world),
        NAME,
        clock=world.clock,
        random=random.Random(seed),
        namespace="default",
        timing=TIMING,
    )


@asynccontextmanager
async def controlling(
    world: World,
    driver: FabricDriver,
    *,
    seed: int = 1,
    through: Callable[[Any], Any] = lambda inner: inner,
    **options: Any,
) -> AsyncIterator[FabricController]:
    """An instance of the controller at work for the duration of the context; ``through`` may wrap its transport."""
    controller = FabricController(driver, client_of(world, through), elector=elector_of(world, seed), **options)
    async with beside(controller.run()):
        await asyncio.sleep(1)
        yield controller


def bound(device: str, **changes: Any) -> resource.DeviceRequestAllocationResult:
    """A result with the conditions of `FabricDriver`."""
    values = {
        "driver": NAME,
        "pool": POOL,
        "binding_conditions": (FabricDriver.attached_condition,),
        "binding_failure_conditions": (FabricDriver.failed_condition,),
        **changes,
    }
    return result(device, request=device, **values)


def on_node(name: str) -> core_v1.NodeSelector:
    field = core_v1.NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(match_fields=(field,)),))


async def allocate(world: World, name: str, node: str, *devices: resource.DeviceRequestAllocationResult) -> None:
    """A claim with these devices, bound to ``node``; made if it is not there."""
    claims = world.client.resource(RESOURCECLAIMS, "default")
    requests = tuple(
        resource.DeviceRequest(
            name=one.request,
            exactly=resource.ExactDeviceRequest(device_class_name="class", admin_access=one.admin_access),
        )
        for one in devices
    )
    if name not in {one.metadata.name for one in (await claims.list()).items}:
        spec = resource.ResourceClaimSpec(devices=resource.DeviceClaim(requests=requests))
        await claims.create(resource.ResourceClaim(metadata=meta_v1.ObjectMeta(name=name), spec=spec))
    await set_allocation(
        world,
        name,
        resource.AllocationResult(
            devices=resource.DeviceAllocationResult(results=devices), node_selector=on_node(node)
        ),
    )


async def deallocate(world: World, name: str) -> None:
    await set_allocation(world, name, None)


async def set_allocation(world: World, name: str, allocation: resource.AllocationResult | None) -> None:
    claims = world.client.resource(RESOURCECLAIMS, "default")
    claim = await claims.get(name)
    await claims.update_status(replace(claim, status=resource.ResourceClaimStatus(allocation=allocation)))


async def told(world: World, name: str, device: str) -> dict[str, str]:
    """Return the conditions of a device in the claim's status: condition → status, with the message where it is not
    True."""
    entries = [one for one in (await world.claim(name)).status.devices if one.device == device]
    conditions = [condition for entry in entries for condition in entry.conditions or ()]
    return {
        one.type: "True" if (one.type, one.status) == ("Attached", "True") else f"{one.status} {one.message}"
        for one in conditions
    }
