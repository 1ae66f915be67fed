"""Slices with the taints of rules, followed as an informer follows them."""

from __future__ import annotations

import asyncio

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    CELDeviceSelector,
    Device,
    DeviceClass,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from cathedra.client.mergedslices import MergedSliceInformer
from cathedra.client.resources import DEVICECLASSES, DEVICETAINTRULES, EVENTS, RESOURCESLICES
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.controllers.world import World, play

GATES = FeatureGates.for_release("1.34", {"DRADeviceTaints": True})
SLICE = ResourceSlice(
    metadata=ObjectMeta(name="s"),
    spec=ResourceSliceSpec(
        driver="d",
        pool=ResourcePool(name="p", generation=1, resource_slice_count=1),
        node_name="n",
        devices=(Device(name="a"),),
    ),
)


def rule(name: str, expression: str = "true", class_name: str | None = None) -> DeviceTaintRule:
    selectors = (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)
    selector = DeviceTaintSelector(device_class_name=class_name, selectors=selectors)
    spec = DeviceTaintRuleSpec(device_selector=selector, taint=DeviceTaint(key=name, effect="NoSchedule"))
    return DeviceTaintRule(metadata=ObjectMeta(name=name), spec=spec)


@run_with(lambda test: play((), test, gates=GATES))
async def test_readers_hear_of_taints_that_rules_bring_and_take(world: World) -> None:
    slices = MergedSliceInformer(world.context.informers, world.context.recorder("scheduler"), GATES)
    told: list[tuple[str, ...]] = []

    def tell(word: str, slice_: ResourceSlice) -> None:
        told.append((word, *(taint.key for device in slice_.spec.devices for taint in device.taints)))

    slices.add_handler(lambda new: tell("+", new), lambda _, new: tell("~", new), lambda old: tell("-", old))
    await slices.wait_synced()
    await world.create(RESOURCESLICES, SLICE)
    await world.create(DEVICETAINTRULES, rule("first"))
    await world.create(DEVICETAINTRULES, rule("of-class", class_name="c"))
    await world.quiet()
    await world.create(DEVICECLASSES, DeviceClass(metadata=ObjectMeta(name="c")))
    await world.quiet()
    await world.of(DEVICETAINTRULES).delete("first")
    await world.quiet()
    late: list[ResourceSlice] = []
    slices.add_handler(late.append)
    await world.of(RESOURCESLICES).delete("s")
    await world.quiet()
    assert told == [("+",), ("~", "first"), ("~", "first", "of-class"), ("~", "of-class"), ("-", "of-class")]
    assert [taint.key for taint in late[0].spec.devices[0].taints] == ["of-class"]
    assert len(slices.store) == 0


@run_with(lambda test: play((), test, gates=GATES))
async def test_a_rule_that_fails_on_a_device_gets_an_event(world: World) -> None:
    recorder = world.context.recorder("scheduler")
    slices = MergedSliceInformer(world.context.informers, recorder, GATES)
    writing = asyncio.ensure_future(recorder.run())
    await world.create(RESOURCESLICES, SLICE)
    await world.create(DEVICETAINTRULES, rule("r", 'device.attributes["d"].model == "x"'))
    await world.quiet()
    writing.cancel()
    assert len(slices.store) == 1
    assert await world.events() == [("Warning", "CELRuntimeError", "selector #0: runtime error: no such key: model")]
    (event,) = (await world.of(EVENTS).list()).items
    assert event.source.component == "resource_slice_tracker"
