"""NUMA nodes whose CPUs are counted with the node's own."""

from __future__ import annotations

from cathedra.api.quantity import Quantity
from cathedra.drivers.example.cpu import CpuProfile
from tests.running import run_with
from tests.unit.driver.world import SHARES, World, in_virtual_time, opaque, running
from tests.unit.drivers.example.bench import Bench

GATES = {"DRANodeAllocatableResources": True}


@run_with(lambda test: in_virtual_time(test, **GATES))
async def test_a_numa_node_maps_its_capacity_to_the_cpus_of_the_node(world: World) -> None:
    bench = Bench(world, CpuProfile(2, cpus=4))
    async with running(bench.runner):
        (found,) = await world.slices()
    device = found.spec.devices[1]
    mapping = device.node_allocatable_resources["cpu"].mapping
    assert (device.name, device.capacity["cpu.example.com/cpu"].value) == ("numa-1", Quantity("4"))
    assert mapping is not None
    assert mapping.capacity_key == "cpu.example.com/cpu"


@run_with(lambda test: in_virtual_time(test, **GATES))
async def test_container_is_told_how_many_cpus_were_taken_of_which_node(world: World) -> None:
    bench = Bench(world, CpuProfile(1))
    share = bench.share("numa-0", SHARES[0], **{"cpu.example.com__cpu": "3"})
    variables = await bench.variables(share)
    assert (variables["CPU_DEVICE_0"], variables["CPU_DEVICE_0_CONSUMED_CPU"]) == ("numa-0", "3")


@run_with(lambda test: in_virtual_time(test, **GATES))
async def test_parameters_are_refused(world: World) -> None:
    bench = Bench(world, CpuProfile(1))
    error = await bench.prepare(bench.share("numa-0"), config=[opaque({"a": "b"}, driver="cpu.example.com")])
    assert error == "configuration not allowed"
