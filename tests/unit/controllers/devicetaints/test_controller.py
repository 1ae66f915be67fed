"""Pods are evicted from tainted devices as their tolerations require."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Container,
    ContainerExtendedResourceRequest,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    AllocationResult,
    CELDeviceSelector,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from cathedra.api.struct import Time, replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import DEVICECLASSES, DEVICETAINTRULES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.controllers.devicetaints.controller import DeviceTaintEvictionController, dry_run, progress
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import find_condition
from tests.running import run_with
from tests.unit.controllers.world import World, play

SPEC = ResourceClaimSpec(
    devices=DeviceClaim(requests=(DeviceRequest(name="r", exactly=ExactDeviceRequest(device_class_name="c")),))
)


def slice_(name: str, *devices: Device, generation: int = 1) -> ResourceSlice:
    pool = ResourcePool(name="pool", generation=generation, resource_slice_count=1)
    spec = ResourceSliceSpec(driver="d", pool=pool, node_name="n1", devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def taint(world: World, effect: str = "NoExecute") -> DeviceTaint:
    return DeviceTaint(key="broken", value="yes", effect=effect, time_added=Time(world.clock.now()))


async def user(world: World, name: str, device: str, *tolerations: DeviceToleration, extended: bool = False) -> Pod:
    """A running pod with a claim on a device, which is named in its spec or was made for its extended resources."""
    entry = PodResourceClaim(name="x", resource_claim_name=name)
    entries = () if extended else (entry,)
    containers = (Container(name="c", image="i"),)
    spec = PodSpec(containers=containers, node_name="n1", resource_claims=entries, termination_grace_period_seconds=0)
    metadata = ObjectMeta(name=name, namespace="default")
    status = PodStatus(phase="Running")
    if extended:
        amount = {"d.example/gpu": Quantity("1")}
        containers = (Container(name="c", image="i", resources=ResourceRequirements(requests=amount, limits=amount)),)
        spec = replace(spec, containers=containers)
        mapping = ContainerExtendedResourceRequest(container_name="c", resource_name="d.example/gpu", request_name="r")
        made = PodExtendedResourceClaimStatus(resource_claim_name=name, request_mappings=(mapping,))
        status = replace(status, extended_resource_claim_status=made)
    pod = await world.create(PODS, Pod(metadata=metadata, spec=spec, status=status))
    result = DeviceRequestAllocationResult(request="r", driver="d", pool="pool", device=device, tolerations=tolerations)
    allocated = ResourceClaimStatus(
        allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,))),
        reserved_for=(ResourceClaimConsumerReference(resource="pods", name=name, uid=pod.metadata.uid),),
    )
    await world.create(RESOURCECLAIMS, ResourceClaim(metadata=metadata, spec=SPEC, status=allocated))
    return pod


def rule(world: World, effect: str = "NoExecute", **selector: str) -> DeviceTaintRule:
    spec = DeviceTaintRuleSpec(device_selector=DeviceTaintSelector(**selector), taint=taint(world, effect))
    return DeviceTaintRule(metadata=ObjectMeta(name="rule", generation=1), spec=spec)


async def condition(world: World) -> tuple[Any, ...]:
    (only,) = (await world.of(DEVICETAINTRULES).get("rule")).status.conditions
    return only.type, only.status, only.reason, only.message


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_a_tainted_device_loses_its_pod(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("s", Device(name="a"), Device(name="b")))
    await user(world, "on-a", "a")
    await user(world, "on-b", "b")
    await world.quiet()
    bad = Device(name="a", taints=(taint(world),))
    await world.change(RESOURCESLICES, "s", lambda s: replace(s, spec=replace(s.spec, devices=(bad, Device(name="b")))))
    await world.quiet()
    assert await world.names(PODS) == ["on-b"]
    assert ("Normal", "DeviceTaintManagerEviction", "Marking for deletion") in await world.events()


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_a_pod_that_leaves_its_device_says_that_it_was_disrupted(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("s", Device(name="a", taints=(taint(world),))))
    leaving = await user(world, "p", "a")
    await world.change(PODS, "p", lambda pod: with_metadata(pod, finalizers=("a.b/c",)))
    await world.quiet()
    status = (await world.of(PODS).get(leaving.metadata.name)).status
    told = find_condition(status.conditions, "DisruptionTarget")
    assert told is not None
    assert (told.status, told.reason) == ("True", "DeletionByDeviceTaintManager")
    assert told.message == "Device Taint manager: deleting due to NoExecute taint"


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_tolerations_of_the_allocation_decide_how_long(world: World) -> None:
    await user(world, "for-ever", "a", DeviceToleration(operator="Exists"))
    await user(world, "a-minute", "a", DeviceToleration(key="broken", value="yes", toleration_seconds=60))
    await user(world, "other-value", "a", DeviceToleration(key="broken", value="no"))
    await world.create(RESOURCESLICES, slice_("s", Device(name="a", taints=(taint(world),))))
    await world.quiet()
    assert await world.names(PODS) == ["a-minute", "for-ever"]
    await world.clock.sleep(60)
    assert await world.names(PODS) == ["for-ever"]


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_a_taint_that_goes_in_time_cancels(world: World) -> None:
    await user(world, "p", "a", DeviceToleration(operator="Exists", toleration_seconds=60))
    await world.create(RESOURCESLICES, slice_("s", Device(name="a", taints=(taint(world),))))
    await world.clock.sleep(30)
    await world.change(RESOURCESLICES, "s", lambda s: replace(s, spec=replace(s.spec, devices=(Device(name="a"),))))
    await world.clock.sleep(60)
    assert await world.names(PODS) == ["p"]
    assert ("Normal", "DeviceTaintManagerEviction", "Cancelling deletion") in await world.events()


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_only_the_newest_generation_of_a_pool_counts(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("new", Device(name="a"), generation=2))
    await user(world, "p", "a")
    await world.quiet()
    await world.create(RESOURCESLICES, slice_("old", Device(name="a", taints=(taint(world),)), generation=1))
    await world.quiet()
    assert await world.names(PODS) == ["p"]
    await world.of(RESOURCESLICES).delete("new")
    await world.quiet()
    assert await world.names(PODS) == []


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_a_pod_that_holds_no_reservation_is_left_alone(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("s", Device(name="a", taints=(taint(world, "NoSchedule"),))))
    await user(world, "p", "a")
    await world.change(
        RESOURCECLAIMS, "p", lambda c: replace(c, status=replace(c.status, reserved_for=())), status=True
    )
    await world.create(DEVICETAINTRULES, rule(world))
    await world.quiet()
    assert await world.names(PODS) == ["p"]


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_a_rule_tells_how_it_is_getting_on(world: World) -> None:
    await user(world, "p", "a")
    await user(world, "slow", "b", DeviceToleration(operator="Exists", toleration_seconds=30))
    await world.quiet()
    await world.create(DEVICETAINTRULES, rule(world, driver="d"))
    await world.quiet()
    pending = ("EvictionInProgress", "True", "PodsPendingEviction")
    assert await condition(world) == (*pending, "2 pods need to be evicted in 1 namespace.")
    assert await world.names(PODS) == ["slow"]
    await world.clock.sleep(11)
    told = "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller."
    assert await condition(world) == (*pending, told)
    await world.clock.sleep(40)
    told = "2 pods evicted since starting the controller."
    assert await condition(world) == ("EvictionInProgress", "False", "Completed", told)


@run_with(lambda test: play(DeviceTaintEvictionController, test))
async def test_a_rule_without_effect_only_counts(world: World) -> None:
    await world.create(RESOURCESLICES, slice_("s", *(Device(name=name) for name in "abcd")))
    await user(world, "p", "a")
    await world.quiet()
    await world.create(DEVICETAINTRULES, rule(world, "None", driver="d"))
    await world.quiet()
    assert (await condition(world))[2:] == (
        "NoEffect",
        "4 published devices selected. 1 allocated device selected. "
        "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
        "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
    )
    assert await world.names(PODS) == ["p"]


def test_until_134_rules_choose_devices_by_class_and_expression() -> None:
    """Such rules are merged into slices; they have no status (docs/spec/allocation.md §4)."""

    async def story(world: World) -> None:
        old = Device(name="a", attributes={"model": DeviceAttribute(string="old")})
        new = Device(name="b", attributes={"model": DeviceAttribute(string="new")})
        await world.create(RESOURCESLICES, slice_("s", old, new))
        await user(world, "on-a", "a")
        await user(world, "on-b", "b")
        await world.create(DEVICECLASSES, DeviceClass(metadata=ObjectMeta(name="gpu")))
        chosen = DeviceTaintSelector(
            device_class_name="gpu",
            selectors=(DeviceSelector(cel=CELDeviceSelector(expression='device.attributes["d"].model == "old"')),),
        )
        spec = DeviceTaintRuleSpec(device_selector=chosen, taint=taint(world))
        await world.create(DEVICETAINTRULES, DeviceTaintRule(metadata=ObjectMeta(name="rule"), spec=spec))
        await world.quiet()
        assert await world.names(PODS) == ["on-b"]
        assert (await world.of(DEVICETAINTRULES).get("rule")).status.conditions == ()

    for release in ("1.33", "1.34"):
        gates = FeatureGates.for_release(release, {"DynamicResourceAllocation": True, "DRADeviceTaints": True})
        play(DeviceTaintEvictionController, story, gates=gates)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (progress("NoExecute", 3, 2, 0), "3 pods need to be evicted in 2 different namespaces."),
        (progress("NoExecute", 0, 0, 0), ""),
        (progress("NoSchedule", 0, 0, 0), "Eviction only happens for the NoExecute effect."),
    ],
)
def test_conditions_are_worded_as_kubernetes_does(made: Any, expected: str) -> None:
    assert made.message == expected
    assert dry_run(1, 1, 2, 3, 0).message.startswith(
        "1 published device selected. 1 allocated device selected. 2 pods would be evicted in 3 different namespaces if"
    )


@pytest.mark.parametrize(("release", "left"), [("1.37", ["p"]), ("1.38", [])])
def test_from_138_on_pods_with_extended_resources_leave_tainted_devices_too(release: str, left: list[str]) -> None:
    """kubernetes/kubernetes#142289."""

    async def story(world: World) -> None:
        await world.create(RESOURCESLICES, slice_("s", Device(name="a", taints=(taint(world),))))
        await user(world, "p", "a", extended=True)
        await world.quiet()
        assert await world.names(PODS) == left

    play(DeviceTaintEvictionController, story, gates=FeatureGates.for_release(release))
