"""Which devices are free while decisions are on their way into the API."""

from __future__ import annotations

import json
import random
from typing import Any

from cathedra.allocation import Allocation
from cathedra.api.resource import AllocationResult, DeviceTaintRule, ResourceClaim, ResourceClaimConsumerReference
from cathedra.api.struct import from_dict, replace
from cathedra.api.undecodable import Undecodable
from cathedra.client.events import EventRecorder
from cathedra.client.resources import DEVICECLASSES, DEVICETAINTRULES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.releases import FeatureGates
from cathedra.scheduler.dynamicresources.claims import ClaimCache
from cathedra.scheduler.dynamicresources.devices import MOST_RESOURCES, FreeDevices
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventResource
from tests.running import run_with
from tests.unit.controllers.world import World, play
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim, device_class, node, slice_


class Scene:
    """A node with two GPUs, and the notifications of the queue."""

    def __init__(self, api: API) -> None:
        self.api = api
        self.cache = ClaimCache(api.informers.of(RESOURCECLAIMS))
        self.devices = FreeDevices(
            self.cache,
            recorder=EventRecorder(api.client, "default-scheduler", api.clock),
            clock=api.clock,
            random=random.Random(1),
            gates=FeatureGates.for_release(),
            filter_timeout=10.0,
        )
        self.count_batch: list[ClusterEvent] = []

    async def start(self) -> None:
        self.devices.listen(self.api.informers, lambda *change: self.count_batch.append(ClusterEvent(*change)))
        self.api.follow()
        await self.api.client.resource(DEVICECLASSES).create(device_class())
        await self.api.client.resource(RESOURCESLICES).create(slice_("n1"))
        await self.api.until(lambda: len(self.count_batch) == 2)

    async def claim(self, name: str) -> ResourceClaim:
        made = await self.api.client.resource(RESOURCECLAIMS, "default").create(claim(name))
        await self.api.until(lambda: self.cache.get("default", name))
        return made

    def allocation(self, wanted: ResourceClaim) -> AllocationResult | None:
        """Return the devices that the claim would get on the node now."""
        answer = self.devices.prepare([wanted]).on(node("n1"))
        return answer.results[0] if isinstance(answer, Allocation) else None

    def take(self, wanted: ResourceClaim) -> str:
        found = self.allocation(wanted)
        assert found is not None
        self.devices.take(wanted, found, "pod")
        return found.devices.results[0].device


@run_with(with_api)
async def test_a_device_is_held_from_the_decision_on(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    first, second, third = [await scene.claim(name) for name in "abc"]
    assert {scene.take(first), scene.take(second)} == {"gpu-0", "gpu-1"}
    assert scene.devices.in_flight == 2
    assert scene.devices.is_in_flight(first)
    assert scene.allocation(third) is None


@run_with(with_api)
async def test_a_decision_that_was_withdrawn_frees_its_device(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    first, second, third = [await scene.claim(name) for name in "abc"]
    scene.take(first)
    scene.take(second)
    scene.devices.settle(first, "pod")
    scene.devices.settle(first, "pod")
    assert scene.devices.in_flight == 1
    assert scene.allocation(third) is not None


@run_with(with_api)
async def test_a_decision_that_was_written_is_held_by_the_claim(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    first, second, third = [await scene.claim(name) for name in "abc"]
    claims = api.client.resource(RESOURCECLAIMS, "default")
    for wanted in (first, second):
        found = scene.allocation(wanted)
        assert found is not None
        scene.devices.take(wanted, found, "pod")
        status = replace(wanted.status, allocation=found)
        scene.cache.assume(await claims.update_status(replace(wanted, status=status)))
        scene.devices.settle(wanted, "pod")
    assert scene.devices.in_flight == 0
    assert scene.allocation(third) is None
    await claims.delete("a")
    await api.until(lambda: scene.cache.get("default", "a") is None)
    assert scene.allocation(third) is not None


@run_with(with_api)
async def test_classes_slices_and_claims_are_told_to_the_queue(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    await scene.claim("a")
    await api.client.resource(RESOURCESLICES).delete("n1-gpu.example.com")
    await api.until(lambda: len(scene.count_batch) == 4)
    assert {(one.resource, one.actions) for one in scene.count_batch[:2]} == {
        (EventResource.DEVICE_CLASS, Action.ADD),
        (EventResource.RESOURCE_SLICE, Action.ADD),
    }
    assert [(one.resource, one.actions) for one in scene.count_batch[2:]] == [
        (EventResource.RESOURCE_CLAIM, Action.ADD),
        (EventResource.RESOURCE_SLICE, Action.DELETE),
    ]
    assert scene.devices.device_class("gpu") is not None


@run_with(with_api)
async def test_a_change_that_leaves_the_status_of_a_claim_alone_is_not_told(api: API) -> None:
    """As the finalizer that the scheduler writes itself."""
    scene = Scene(api)
    await scene.start()
    claims = api.client.resource(RESOURCECLAIMS, "default")
    made = await scene.claim("a")
    marked = await claims.update(replace(made, metadata=replace(made.metadata, finalizers=("acme.test/f",))))
    reserved = ResourceClaimConsumerReference(resource="pods", name="p", uid="uid-p")
    status = replace(marked.status, allocation=AllocationResult(), reserved_for=(reserved,))
    await claims.update_status(replace(marked, status=status))
    await api.until(lambda: scene.count_batch[-1].actions is Action.UPDATE)
    told = [(one.actions, one.new.metadata.finalizers) for one in scene.count_batch[2:]]
    assert told == [(Action.ADD, ()), (Action.UPDATE, ("acme.test/f",))]


@run_with(with_api)
async def test_the_class_behind_a_resource_is_always_that_of_the_classes_there_are(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    classes, resource = api.client.resource(DEVICECLASSES), "acme.test/gpu"
    assert scene.devices.class_behind(resource) is None
    made = await classes.create(device_class("fine", extendedResourceName=resource))
    await api.until(lambda: scene.devices.class_behind(resource) == "fine")
    await classes.update(replace(made, spec=replace(made.spec, extended_resource_name="acme.test/other")))
    await api.until(lambda: scene.devices.class_behind(resource) is None)
    assert scene.devices.class_behind("acme.test/other") == "fine"
    await classes.delete("fine")
    await api.until(lambda: scene.devices.class_behind("acme.test/other") is None)
    for number in range(MOST_RESOURCES + 1):
        assert scene.devices.class_behind(f"acme.test/{number}") is None


@run_with(with_api)
async def test_a_decision_that_pods_share_is_held_until_the_last_of_them_lets_go(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    wanted = await scene.claim("a")
    found = scene.allocation(wanted)
    assert found is not None
    scene.devices.take(wanted, found, "one")
    scene.devices.take(wanted, found, "two")
    scene.devices.settle(wanted, "one")
    scene.devices.settle(wanted, "one")
    assert scene.devices.is_in_flight(wanted)
    scene.devices.settle(wanted, "two")
    assert not scene.devices.is_in_flight(wanted)


def test_until_134_rules_taint_the_devices_of_a_class() -> None:
    """Rules are merged into slices before the scheduler reads these (docs/spec/allocation.md §4)."""
    gates = FeatureGates.for_release("1.34", {"DRADeviceTaints": True})

    async def story(world: World) -> None:
        informers = world.context.informers
        devices = FreeDevices(
            ClaimCache(informers.of(RESOURCECLAIMS)),
            recorder=world.context.recorder("default-scheduler"),
            clock=world.clock,
            random=random.Random(1),
            gates=gates,
            filter_timeout=0.0,
        )
        told: list[ClusterEvent] = []
        devices.listen(informers, lambda *change: told.append(ClusterEvent(*change)))
        await world.create(DEVICECLASSES, device_class())
        await world.create(RESOURCESLICES, slice_("n1"))
        wanted = await world.create(RESOURCECLAIMS, claim("a"))
        spec = {"deviceSelector": {"deviceClassName": "gpu"}, "taint": {"key": "k", "effect": "NoSchedule"}}
        await world.create(DEVICETAINTRULES, from_dict(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec}))
        await world.quiet()
        assert not isinstance(devices.prepare([wanted]).on(node("n1")), Allocation)
        told.clear()
        await world.of(DEVICETAINTRULES).delete("r")
        await world.quiet()
        assert isinstance(devices.prepare([wanted]).on(node("n1")), Allocation)
        assert [(one.resource, one.actions) for one in told] == [(EventResource.RESOURCE_SLICE, Action.UPDATE)]

    play((), story, gates=gates)


@run_with(with_api)
async def test_devices_of_a_claim_that_cannot_be_decoded_are_held_until_it_can_be_or_goes(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    wanted = await scene.claim("a")
    results = [{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
    what = _odd({"status": {"allocation": {"devices": {"results": results}}}})
    scene.devices._undecodable(what)
    assert scene.take(wanted) == "gpu-1"
    assert scene.allocation(await scene.claim("b")) is None
    scene.count_batch.clear()
    scene.devices._resolved(what, None)
    assert scene.take(await scene.claim("c")) == "gpu-0"
    assert EventResource.RESOURCE_SLICE in {one.resource for one in scene.count_batch}


@run_with(with_api)
async def test_what_a_claim_may_hold_that_cannot_be_read_is_not_given_out(api: API) -> None:
    scene = Scene(api)
    await scene.start()
    what = _odd({"status": {"allocation": {"devices": {"results": None, "nodeSelector": 3, "x": 1}}}})
    scene.devices._undecodable(what)
    assert scene.allocation(await scene.claim("a")) is not None, "it holds nothing"
    what = _odd({"status": {"allocation": {"devices": {"results": [{"driver": "gpu.example.com"}]}}}})
    scene.devices._undecodable(what)
    assert scene.allocation(await scene.claim("b")) is None
    scene.devices._resolved(what, None)
    assert scene.allocation(await scene.claim("c")) is not None


def _odd(value: dict[str, Any]) -> Undecodable:
    return Undecodable("ResourceClaim", "default", "odd", "uid-odd", "7", "spec.x", "odd", json.dumps(value).encode())
