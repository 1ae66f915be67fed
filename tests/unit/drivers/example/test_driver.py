"""Binding conditions are satisfied by the driver of the node whose devices they are about."""

from __future__ import annotations

import asyncio

from cathedra.drivers.example.driver import BINDING_CONDITION, FAILURE_CONDITION, DriverOptions
from cathedra.drivers.example.gpu import GpuOptions, GpuProfile
from cathedra.semantics.conditions import is_true
from tests.running import run_with
from tests.unit.driver.world import World, in_virtual_time, result, running
from tests.unit.drivers.example.bench import Bench

NAME = "gpu.example.com"


def bench_of(world: World) -> Bench:
    return Bench(world, GpuProfile(GpuOptions(count=3)), DriverOptions(binding_conditions=True, publish_status=True))


def bound(device: str, **changes: object) -> object:
    values = {
        "driver": NAME,
        "binding_conditions": (BINDING_CONDITION,),
        "binding_failure_conditions": (FAILURE_CONDITION,),
        **changes,
    }
    return result(device, request=device, **values)


async def conditions(world: World, name: str) -> dict[str, list[str]]:
    """Device → the conditions that are True."""
    return {
        entry.device: [one.type for one in entry.conditions or () if is_true(entry.conditions or (), one.type)]
        for entry in (await world.claim(name)).status.devices
    }


@run_with(in_virtual_time)
async def test_devices_say_what_is_waited_for(world: World) -> None:
    async with running(bench_of(world).runner):
        (found,) = await world.slices()
    assert {device.binding_conditions for device in found.spec.devices} == {(BINDING_CONDITION,)}
    assert {device.binding_failure_conditions for device in found.spec.devices} == {(FAILURE_CONDITION,)}


@run_with(in_virtual_time)
async def test_all_devices_of_a_claim_are_declared_ready_and_those_of_others_left_alone(world: World) -> None:
    async with running(bench_of(world).runner):
        elsewhere = bound("gpu-9", pool="node-b")
        await world.allocate("c", bound("gpu-0"), bound("gpu-1"), elsewhere)  # type: ignore[arg-type]
        await asyncio.sleep(1)
        assert await conditions(world, "c") == {"gpu-0": [BINDING_CONDITION], "gpu-1": [BINDING_CONDITION]}


@run_with(in_virtual_time)
async def test_conditions_stay_when_the_driver_tells_of_the_device_later(world: World) -> None:
    bench = bench_of(world)
    async with running(bench.runner):
        ref = await world.allocate("c", bound("gpu-0"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        await bench.runner.service.node_prepare_resources([ref])
        (entry,) = (await world.claim("c")).status.devices
        assert entry.data is not None
        assert entry.data.load()["model"] == "LATEST-GPU-MODEL"
        assert await conditions(world, "c") == {"gpu-0": [BINDING_CONDITION]}


@run_with(in_virtual_time)
async def test_held_back_they_wait_until_released(world: World) -> None:
    bench = bench_of(world)
    async with running(bench.runner):
        bench.driver.controls.carry_out(["binding", "hold"])
        await world.allocate("c", bound("gpu-0"))  # type: ignore[arg-type]
        await asyncio.sleep(60)
        assert await conditions(world, "c") == {}
        bench.driver.controls.carry_out(["binding", "ready"])
        await asyncio.sleep(1)
        assert await conditions(world, "c") == {"gpu-0": [BINDING_CONDITION]}


@run_with(in_virtual_time)
async def test_a_device_that_cannot_be_made_ready_says_so(world: World) -> None:
    bench = bench_of(world)
    async with running(bench.runner):
        bench.driver.controls.carry_out(["binding", "fail"])
        await world.allocate("c", bound("gpu-0"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        assert await conditions(world, "c") == {"gpu-0": [FAILURE_CONDITION]}
