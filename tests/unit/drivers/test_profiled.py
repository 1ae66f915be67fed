"""Drivers of profiles: they publish the devices of the profile, and containers get their variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.resource import DeviceRequestAllocationResult
from cathedra.driver import MemoryFiles
from cathedra.drivers.profiled import ProfiledDriver
from cathedra.profiles import expanded_pools, load_profile, profile_names
from tests.running import run_with
from tests.unit.driver.world import NODE, World, in_virtual_time, result, running


@pytest.mark.parametrize("name", profile_names())
@run_with(in_virtual_time)
async def test_slices_have_the_devices_and_counters_of_the_profile(world: World, *, name: str) -> None:
    profile = load_profile(name)
    pool = expanded_pools(profile, NODE)[0]
    async with running(world.runner(ProfiledDriver(profile, pool.driver))):
        slices = await world.slices()
    assert [device for piece in slices for device in piece.spec.devices or ()] == list(pool.devices)
    assert [one for piece in slices for one in piece.spec.shared_counters] == list(pool.counter_sets)
    assert {piece.spec.pool.name for piece in slices} == {NODE}


def allocated(device: str, **changes: Any) -> DeviceRequestAllocationResult:
    return result(device, request="gpu", **{"driver": "gpu.nvidia.com", **changes})


def test_a_container_learns_its_devices() -> None:
    files = MemoryFiles()

    async def test(world: World) -> str:
        service = world.runner(ProfiledDriver(load_profile("h100-8"), "gpu.nvidia.com"), files=files).service
        service.open()
        ref = await world.allocate("c", allocated("gpu-1"), allocated("gpu-2"))
        answer = await service.node_prepare_resources([ref])
        assert answer[ref.uid].error == ""
        return ref.uid

    in_virtual_time(test)
    documents = [json.loads(text) for path, text in files.contents.items() if path.parent == Path("/data/cdi")]
    edits = [device["containerEdits"] for document in documents for device in document["devices"]]
    assert [one for edit in edits for one in edit.get("env", ())] == [
        f"DRA_DEVICE_GPU_1=gpu.nvidia.com/{NODE}/gpu-1",
        f"DRA_DEVICE_GPU_2=gpu.nvidia.com/{NODE}/gpu-2",
    ]
