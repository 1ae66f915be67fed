"""The example driver: what its GPUs look like, to the cluster and in a container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceAttribute, DeviceRequestAllocationResult
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver import MemoryFiles
from cathedra.drivers.example.driver import DriverOptions
from cathedra.drivers.example.gpu import GpuOptions
from cathedra.drivers.gpu import GpuDriver
from tests.running import run_with
from tests.unit.driver.world import NODE, SHARES, World, in_virtual_time, opaque, result, running

NAME = "gpu.example.com"
CONFIG = {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig"}


def gpu(device: str, **changes: Any) -> DeviceRequestAllocationResult:
    return result(device, request="gpu", **{"driver": NAME, **changes})


def environment(files: MemoryFiles, uid: str) -> dict[str, dict[str, str]]:
    """Device name → the variables that its container gets."""
    document = json.loads(files.contents[Path(f"/data/cdi/k8s.gpu.example.com-gpu_{uid}.json")])
    return {
        device["name"].removeprefix(f"{uid}-"): dict(v.split("=", 1) for v in device["containerEdits"]["env"])
        for device in document["devices"]
    }


@run_with(in_virtual_time)
async def test_gpus_have_the_attributes_and_capacities_that_selectors_ask_for(world: World) -> None:
    async with running(world.runner(GpuDriver(GpuOptions(count=3)))):
        (found,) = await world.slices()
    assert [device.name for device in found.spec.devices] == ["gpu-0", "gpu-1", "gpu-2"]
    device = found.spec.devices[1]
    assert device.attributes["type"] == DeviceAttribute(string="gpu")
    assert device.attributes["index"] == DeviceAttribute(int_=1)
    assert device.attributes["model"] == DeviceAttribute(string="LATEST-GPU-MODEL")
    assert device.attributes["driverVersion"] == DeviceAttribute(version="1.0.0")
    assert device.attributes["resource.kubernetes.io/pciBusID"] == DeviceAttribute(string="0000:11:00.0")
    assert device.attributes["resource.kubernetes.io/pcieRoot"] == DeviceAttribute(string="pci0000:10")
    assert device.capacity["memory"].value == Quantity("80Gi")


def test_uuids_depend_on_node_and_index_alone() -> None:
    def uuids(node: str) -> list[object]:
        driver = GpuDriver()
        driver.install(node, lambda: None)
        return [device.attributes["uuid"] for device in driver.devices()]

    assert uuids("a") == uuids("a")
    assert len({*uuids("a"), *uuids("b")}) == 16
    assert str(uuids("a")[0]).startswith("gpu-")


def test_name_memory_and_attributes_are_options() -> None:
    gpus = GpuOptions(memory="64Gi", attributes={"model": "X", "fast": True})
    driver = GpuDriver(gpus, DriverOptions(name="driver.example.com"))
    driver.install(NODE, lambda: None)
    device = driver.devices()[0].to_api()
    assert driver.name == "driver.example.com"
    assert device.capacity["memory"].value == Quantity("64Gi")
    assert (device.attributes["model"].string, device.attributes["fast"].bool_) == ("X", True)


def test_a_container_finds_its_options_in_the_environment() -> None:
    driver = GpuDriver.from_environment(
        {"DRIVER_NAME": "d.example.com", "NUM_DEVICES": "2", "GPU_ALLOW_MULTIPLE_ALLOCATIONS": "true"}
    )
    driver.install(NODE, lambda: None)
    assert driver.name == "d.example.com"
    assert [device.multiple_allocations for device in driver.devices()] == [True, True]


@run_with(in_virtual_time)
async def test_container_is_told_of_its_gpu_and_how_it_is_shared(world: World) -> None:
    files = MemoryFiles()
    service = world.runner(GpuDriver(), files=files).service
    service.open()
    ref = await world.allocate("c", gpu("gpu-3"))
    answer = await service.node_prepare_resources([ref])
    assert environment(files, ref.uid)["gpu-3"] == {
        "GPU_DEVICE_3": "gpu-3",
        "GPU_DEVICE_GPU_3_RESOURCE_CLAIM": ref.uid,
        "DRA_ADMIN_ACCESS": "false",
        "GPU_DEVICE_3_SHARING_STRATEGY": "TimeSlicing",
        "GPU_DEVICE_3_TIMESLICE_INTERVAL": "Default",
    }
    assert answer[ref.uid].devices[0].cdi_device_ids == (
        "k8s.gpu.example.com/gpu=common",
        f"k8s.gpu.example.com/gpu={ref.uid}-gpu-3",
        f"gpu.example.com/metadata={ref.uid}_gpu",
    )
    common = json.loads(files.contents[Path("/data/cdi/k8s.gpu.example.com-gpu_common.json")])
    assert common["devices"][0]["containerEdits"]["env"] == [
        f"KUBERNETES_NODE_NAME={NODE}",
        "DRA_RESOURCE_DRIVER_NAME=gpu.example.com",
    ]


@run_with(in_virtual_time)
async def test_parameters_choose_the_way_of_sharing(world: World) -> None:
    files = MemoryFiles()
    service = world.runner(GpuDriver(), files=files).service
    slow = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
    parts = {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 10}}
    config = [
        opaque({**CONFIG, "sharing": slow}, driver=NAME, requests=["a"]),
        opaque({**CONFIG, "sharing": parts}, driver=NAME, requests=["b"]),
    ]
    ref = await world.allocate(
        "c",
        result("gpu-0", request="a", driver=NAME),
        result("gpu-1", request="b", driver=NAME, admin_access=True),
        config=config,
    )
    assert (await service.node_prepare_resources([ref]))[ref.uid].error == ""
    found = environment(files, ref.uid)
    assert found["gpu-0"]["GPU_DEVICE_0_TIMESLICE_INTERVAL"] == "Long"
    assert found["gpu-1"]["GPU_DEVICE_1_SHARING_STRATEGY"] == "SpacePartitioning"
    assert found["gpu-1"]["GPU_DEVICE_1_PARTITION_COUNT"] == "10"
    assert found["gpu-1"]["DRA_ADMIN_ACCESS"] == "true"


@run_with(in_virtual_time)
async def test_wrong_parameters_fail_the_claim_with_their_place(world: World) -> None:
    service = world.runner(GpuDriver()).service
    both = {"timeSlicingConfig": {}, "spacePartitioningConfig": {}}
    wrong = [({"sharing": both}, "only one of"), ({"sharing": {"strategy": "Luck"}}, "Invalid enum value 'Luck'")]
    wrong += [({"shares": {}}, "unknown field `shares`")]
    for i, (values, message) in enumerate(wrong):
        ref = await world.allocate(f"c{i}", gpu("gpu-0"), config=[opaque({**CONFIG, **values}, driver=NAME)])
        error = (await service.node_prepare_resources([ref]))[ref.uid].error
        assert error.startswith("status.allocation.devices.config[0].opaque.parameters: ")
        assert message in error


@run_with(in_virtual_time)
async def test_share_of_a_gpu_says_how_large_it_is(world: World) -> None:
    files = MemoryFiles()
    service = world.runner(GpuDriver(), files=files).service
    share = gpu("gpu-0", share_id=SHARES[0], consumed_capacity={"memory": Quantity("16Gi"), "compute": Quantity("20")})
    ref = await world.allocate("c", share)
    await service.node_prepare_resources([ref])
    variables = environment(files, ref.uid)[f"gpu-0-{SHARES[0]}"]
    assert (variables["GPU_DEVICE_0_MEMORY"], variables["GPU_DEVICE_0_COMPUTE"]) == ("16Gi", "20")


@run_with(in_virtual_time)
async def test_status_of_the_claim_tells_of_the_gpu_and_keeps_what_others_wrote(world: World) -> None:
    service = world.runner(GpuDriver(options=DriverOptions(publish_status=True))).service
    ref = await world.allocate("c", gpu("gpu-0"))
    await service.node_prepare_resources([ref])
    (entry,) = (await world.client.resource(RESOURCECLAIMS, "default").get("c")).status.devices
    assert (entry.driver, entry.pool, entry.device) == (NAME, NODE, "gpu-0")
    assert entry.data is not None
    assert set(entry.data.load()) == {"uuid", "model", "driverVersion"}


@run_with(in_virtual_time)
async def test_a_gpu_that_can_be_cut_is_offered_in_parts_and_whole_from_the_same_counters(world: World) -> None:
    async with running(world.runner(GpuDriver(GpuOptions(count=2, partitions=2)))):
        slices = await world.slices()
    counters = {one.name: one.counters for piece in slices for one in piece.spec.shared_counters}
    devices = {one.name: one for piece in slices for one in piece.spec.devices}
    assert list(devices) == [f"gpu-{i}-{form}" for i in (0, 1) for form in ("partition-0", "partition-1", "full")]
    assert counters.keys() == {"gpu-0-counters", "gpu-1-counters"}
    assert counters["gpu-1-counters"]["memory"].value == Quantity("80Gi")
    part, full = devices["gpu-1-partition-1"], devices["gpu-1-full"]
    assert part.consumes_counters[0].counter_set == full.consumes_counters[0].counter_set == "gpu-1-counters"
    assert part.consumes_counters[0].counters["memory"].value == part.capacity["memory"].value == Quantity("40Gi")
    assert str(part.capacity["memory"].value) == "40Gi"
    assert full.consumes_counters[0].counters["compute"].value == Quantity("100")
    assert (part.attributes["type"].string, part.attributes["partition"].int_) == ("partition", 1)
    assert (full.attributes["type"].string, full.attributes["full"].bool_) == ("gpu", True)


@run_with(in_virtual_time)
async def test_container_is_told_of_its_partition(world: World) -> None:
    files = MemoryFiles()
    service = world.runner(GpuDriver(GpuOptions(partitions=4)), files=files).service
    service.open()
    ref = await world.allocate("c", gpu("gpu-3-partition-2"))
    assert (await service.node_prepare_resources([ref]))[ref.uid].error == ""
    variables = environment(files, ref.uid)["gpu-3-partition-2"]
    assert variables["GPU_DEVICE_3_PARTITION_2"] == "gpu-3-partition-2"
    assert variables["GPU_DEVICE_GPU_3_PARTITION_2_RESOURCE_CLAIM"] == ref.uid


@run_with(in_virtual_time)
async def test_a_device_that_is_not_there_fails_the_claim(world: World) -> None:
    service = world.runner(GpuDriver()).service
    ref = await world.allocate("c", gpu("lamp-0"))
    assert "there is no device 'lamp-0'" in (await service.node_prepare_resources([ref]))[ref.uid].error
