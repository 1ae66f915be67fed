"""Parts of GPUs that lie in certain places only."""

from __future__ import annotations

import pytest

from cathedra.driver.kit import Kit, KitError
from cathedra.drivers.example.driver import ExampleDriver
from cathedra.drivers.example.gpu import GpuOptions, GpuProfile
from cathedra.drivers.example.mig import MIG_SIZES, mig_pool
from cathedra.drivers.example.profile import Site

SITE = Site("gpu.example.com", "node-a")


def one_gpu() -> ExampleDriver:
    return ExampleDriver(GpuProfile(GpuOptions(count=1), mig_pool))


def of_size(name: str) -> str:
    return f'device.attributes["gpu.example.com"].profile == "{name}"'


def test_every_place_of_every_size_is_a_device_named_as_nvidia_names_it() -> None:
    pool = mig_pool(SITE, GpuOptions(count=2))
    names = [device.name for device in pool.devices]
    assert len(names) == len(set(names)) == 2 * (sum(len(size.starts) for size in MIG_SIZES) + 1)
    assert "gpu-1-mig-3g40gb-9-4" in names


def test_places_stay_inside_the_gpu_and_consume_what_they_cover() -> None:
    pool = mig_pool(SITE, GpuOptions(count=1))
    (counters,) = pool.counters.values()
    for device in pool.devices:
        (taken,) = device.consumes.values()
        assert taken.keys() <= counters.keys()
    by_name = {device.name: device for device in pool.devices}
    (taken,) = by_name["gpu-0-mig-2g20gb-14-2"].consumes.values()
    assert {name for name in taken if name.startswith("memory-slice")} == {"memory-slice-2", "memory-slice-3"}


async def test_two_halves_fit_and_leave_no_place_for_a_third_part() -> None:
    async with Kit(one_gpu) as kit:
        await kit.allocate(of_size("3g.40gb"))
        await kit.allocate(of_size("3g.40gb"))
        with pytest.raises(KitError, match="counters"):
            await kit.allocate(of_size("1g.10gb"))


async def test_seven_small_parts_exclude_the_whole() -> None:
    async with Kit(one_gpu) as kit:
        for _ in range(7):
            await kit.allocate(of_size("1g.10gb"))
        with pytest.raises(KitError):
            await kit.allocate(of_size("full"))


async def test_sizes_that_lie_beside_each_other_go_together() -> None:
    async with Kit(one_gpu) as kit:
        await kit.allocate(of_size("4g.40gb"))
        await kit.allocate(of_size("3g.40gb"))
