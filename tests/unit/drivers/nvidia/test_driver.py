"""GPUs and their partitions, on recorded answers of NVML."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cathedra.api.quantity import Quantity
from cathedra.client.client import Client
from cathedra.clock import SystemClock
from cathedra.driver import Health, OptionError
from cathedra.driver.kit import Kit, KitError, check_driver
from cathedra.driver.kit.bench import MemoryAPI
from cathedra.drivers.nvidia import NvidiaDriver
from cathedra.drivers.nvidia.nvml import read_gpus
from cathedra.files.inotify import wait_for_files
from tests.running import beside
from tests.unit.drivers.nvidia.fake import Card, FakeNvml, NVMLError, machine


def of_profile(name: str) -> str:
    return f'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "{name}"'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine(tmp_path, 0, 1)


def test_a_gpu_says_what_nvml_says_of_it(root: Path) -> None:
    driver = NvidiaDriver(nvml=FakeNvml(Card(0, fabric=True)), root=root)
    (device,) = driver.resources().devices
    made = device.to_api()
    assert made.name == "gpu-0"
    assert {name: value.string or value.version or value.int_ for name, value in made.attributes.items()} == {
        "type": "gpu",
        "uuid": "GPU-00000000-1111-2222-3333-444444444444",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": "9.0.0",
        "driverVersion": "580.159.4",
        "cudaDriverVersion": "13.0.0",
        "cliqueID": "00010203-0405-0607-0809-0a0b0c0d0e0f.7",
        "resource.kubernetes.io/pciBusID": "0000:07:00.0",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
        "resource.kubernetes.io/numaNode": made.attributes["resource.kubernetes.io/numaNode"].int_,
    }
    assert made.attributes["resource.kubernetes.io/numaNode"].int_ == 0
    assert made.capacity["memory"].value == Quantity(85520809984)


def test_versions_become_semantic() -> None:
    nvml = FakeNvml(Card(0))
    nvml.nvmlSystemGetDriverVersion = lambda: "535.04"  # type: ignore[method-assign]  # another recording
    assert read_gpus(nvml)[0].driver_version == "535.4.0"


def test_a_gpu_whose_partitions_are_listed_is_whole_while_mig_is_off(root: Path) -> None:
    """NVML answers profiles and placements in both modes."""
    pool = NvidiaDriver(nvml=FakeNvml(Card(0)), root=root).resources()
    assert [device.name for device in pool.devices] == ["gpu-0"]
    assert pool.counters == {}


def test_a_gpu_in_mig_mode_is_offered_whole_and_in_every_partition(root: Path) -> None:
    pool = NvidiaDriver(nvml=FakeNvml(Card(0, mig=True)), root=root).resources()
    names = [device.name for device in pool.devices]
    assert len(names) == 7 + 7 + 4 + 3 + 2 + 1 + 1 + 1
    assert names[0] == "gpu-0-mig-1g10gb-19-0"
    assert names[-1] == "gpu-0"
    counters = pool.counters["gpu-0-counter-set"]
    assert counters["copy-engines"] == Quantity("8")
    assert sum(name.startswith("memory-slice-") for name in counters) == 8
    assert {"gpu-0-mig-1g10gb-me-20-6", "gpu-0-mig-1g20gb-15-6"} <= set(names)
    half = pool.devices[names.index("gpu-0-mig-3g40gb-9-4")]
    assert half.attributes["parentUUID"] == "GPU-00000000-1111-2222-3333-444444444444"
    assert "uuid" not in half.attributes
    assert set(half.consumes["gpu-0-counter-set"]) >= {f"memory-slice-{i}" for i in range(4, 8)}


async def test_a_container_gets_the_node_of_its_gpu_and_the_drivers_libraries(root: Path) -> None:
    async with Kit(lambda: NvidiaDriver(nvml=FakeNvml(Card(0), Card(1)), root=root)) as kit:
        edits = kit.edits(await kit.prepare(await kit.claim("gpu-1")))
    assert {node.path for node in edits.device_nodes} == {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1"}
    assert {mount.container_path for mount in edits.mounts} == {
        "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04",
        "/usr/bin/nvidia-smi",
    }
    assert "NVIDIA_VISIBLE_DEVICES=void" in edits.env
    (hook,) = edits.hooks
    assert hook.hook_name == "createContainer"
    assert hook.args[1:] == (
        "-m",
        "cathedra.drivers.hooks.libraries",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04",
    )


async def test_a_partition_is_made_for_its_claim_and_removed(root: Path) -> None:
    card = Card(0, mig=True)
    async with Kit(lambda: NvidiaDriver(nvml=FakeNvml(card), root=root)) as kit:
        claims = [await kit.allocate(of_profile("3g.40gb")) for _ in range(2)]
        for claim in claims:
            edits = kit.edits(await kit.prepare(claim))
        assert card.made == {1: (0, 4), 2: (4, 4)}
        assert {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"} <= {
            node.path for node in edits.device_nodes
        }
        with pytest.raises(KitError, match="counters"):
            await kit.allocate(of_profile("1g.10gb"))
        await kit.restart()
        for claim in claims:
            await kit.unprepare(claim)
        assert card.made == {}


async def test_a_partition_in_use_is_kept_until_it_is_free(root: Path) -> None:
    card = Card(0, mig=True)
    async with Kit(lambda: NvidiaDriver(nvml=FakeNvml(card), root=root)) as kit:
        claim = await kit.allocate(of_profile("1g.10gb"))
        await kit.prepare(claim)
        card.busy = True
        with pytest.raises(KitError, match="cannot remove the MIG device MIG-0-1"):
            await kit.unprepare(claim)
        card.busy = False
        await kit.unprepare(claim)
        assert card.made == {}


async def test_a_place_that_others_took_fails_the_claim(root: Path) -> None:
    card = Card(0, mig=True, made={5: (0, 8)})
    async with Kit(lambda: NvidiaDriver(nvml=FakeNvml(card), root=root)) as kit:
        with pytest.raises(KitError, match="cannot make gpu-0-mig-1g10gb-19-0: NVML error 7"):
            await kit.prepare(await kit.claim("gpu-0-mig-1g10gb-19-0"))


async def test_a_claim_whose_second_partition_cannot_be_made_keeps_no_first_one(root: Path) -> None:
    card = Card(0, mig=True, made={5: (4, 4)})
    async with Kit(lambda: NvidiaDriver(nvml=FakeNvml(card), root=root)) as kit:
        with pytest.raises(KitError, match="cannot make gpu-0-mig-1g10gb-19-4"):
            await kit.prepare(await kit.claim("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-4"))
    assert card.made == {5: (4, 4)}


async def test_a_partition_that_does_not_appear_is_removed_again(root: Path) -> None:
    card, nvml = Card(0, mig=True), FakeNvml()
    nvml.cards = (card,)
    nvml.nvmlDeviceGetMaxMigDeviceCount = lambda _: 0  # type: ignore[method-assign]  # the GPU lists none
    async with Kit(lambda: NvidiaDriver(nvml=nvml, root=root)) as kit:
        with pytest.raises(KitError, match="does not appear"):
            await kit.prepare(await kit.claim("gpu-0-mig-1g10gb-19-0"))
    assert card.made == {}


async def until_faulty(driver: NvidiaDriver, keys: set[str]) -> None:
    """Wait until devices have taints with these keys: each fault is a new report of health."""
    async for _ in driver.health():
        if {taint.key for device in driver.resources().devices for taint in device.taints} >= keys:
            return


async def test_errors_become_taints_and_health(root: Path) -> None:
    cards = Card(0), Card(1)
    nvml = FakeNvml(*cards)
    async with Kit(lambda: NvidiaDriver(nvml=nvml, root=root)) as kit:
        driver = kit.driver
        assert isinstance(driver, NvidiaDriver)
        nvml.happens(cards[0], nvml.nvmlEventTypeXidCriticalError, 79)
        nvml.happens(cards[1], nvml.nvmlEventTypeXidCriticalError, 31)
        nvml.happens(cards[0], nvml.nvmlEventTypeDoubleBitEccError)
        await until_faulty(driver, {"gpu.nvidia.com/xid", "gpu.nvidia.com/double-bit-ecc"})
        first, second = driver.resources().devices
        assert {(one.key, one.value, one.effect) for one in first.taints} == {
            ("gpu.nvidia.com/xid", "79", "NoSchedule"),
            ("gpu.nvidia.com/double-bit-ecc", "", "NoSchedule"),
        }
        assert [(one.value, one.effect) for one in second.taints] == [("31", "None")]
        health = {report.device: report for report in await anext(driver.health())}
        assert (health["gpu-0"].state, health["gpu-1"].state) == (Health.UNHEALTHY, Health.HEALTHY)
        assert health["gpu-0"].message == "xid 79, double-bit-ecc"
    assert nvml.freed


@asynccontextmanager
async def listening(nvml: FakeNvml, root: Path, directory: Path) -> AsyncIterator[NvidiaDriver]:
    """A driver that listens to errors, with a directory of its own, as in a process with sockets."""
    driver = NvidiaDriver(nvml=nvml, root=root)
    client = Client(MemoryAPI(), clock=SystemClock())
    async with beside(driver.background(client, directory)):
        yield driver


async def test_a_severe_fault_is_known_after_a_restart_until_its_file_is_removed(root: Path, tmp_path: Path) -> None:
    card = Card(0)
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    boot = root / "proc/sys/kernel/random/boot_id"
    boot.write_text("first\n")
    directory = tmp_path / "plugin"
    nvml = FakeNvml(card)
    async with listening(nvml, root, directory) as driver:
        nvml.happens(card, nvml.nvmlEventTypeXidCriticalError, 79)
        nvml.happens(card, nvml.nvmlEventTypeXidCriticalError, 31)
        await until_faulty(driver, {"gpu.nvidia.com/xid"})
        await until_recorded(directory)
    (record,) = (directory / "faults").iterdir()
    assert record.name == "GPU-00000000-1111-2222-3333-444444444444_xid_79"
    async with listening(FakeNvml(card), root, directory) as driver:
        await until_faulty(driver, {"gpu.nvidia.com/xid"})
        record.unlink()
        async for _ in driver.health():
            if not driver.resources().devices[0].taints:
                break
    record.write_text("first")
    boot.write_text("second")
    async with listening(FakeNvml(card), root, directory) as driver:
        await wait_for_files(lambda: not record.exists(), (directory / "faults",))
        assert not driver.resources().devices[0].taints


async def until_recorded(directory: Path) -> None:
    await wait_for_files(lambda: any((directory / "faults").glob("*_xid_*")), (directory, directory / "faults"))


async def test_a_lost_gpu_taints_all_because_none_can_be_asked(root: Path) -> None:
    nvml = FakeNvml(Card(0), Card(1))
    async with Kit(lambda: NvidiaDriver(nvml=nvml, root=root)) as kit:
        driver = kit.driver
        assert isinstance(driver, NvidiaDriver)
        nvml.events.put(NVMLError(nvml.NVML_ERROR_GPU_IS_LOST))
        await until_faulty(driver, {"gpu.nvidia.com/gpu-lost"})
        assert all(device.taints for device in driver.resources().devices)


async def test_a_gpu_that_cannot_be_watched_says_so_and_works(root: Path) -> None:
    nvml = FakeNvml(Card(0, events=0))
    async with Kit(lambda: NvidiaDriver(nvml=nvml, root=root)) as kit:
        driver = kit.driver
        assert isinstance(driver, NvidiaDriver)
        await until_faulty(driver, {"gpu.nvidia.com/unmonitored"})
        await kit.prepare(await kit.claim("gpu-0"))


async def test_the_driver_keeps_the_contract(root: Path) -> None:
    verdicts = await check_driver(lambda: NvidiaDriver(nvml=FakeNvml(Card(0), Card(1, mig=True)), root=root))
    assert [(one.check.name, one.reason) for one in verdicts if one.outcome == "failed"] == []


def test_without_the_libraries_of_the_kernels_version_nothing_is_published(root: Path) -> None:
    (root / "usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04").rename(root / "usr/lib/libcuda.so.1.2.3")
    with pytest.raises(OptionError, match=r"libcuda\.so\.580\.159\.04, .* was not found, so no GPU is published"):
        NvidiaDriver(nvml=FakeNvml(Card(0)), root=root)


def test_the_file_may_name_where_the_libraries_are(root: Path, tmp_path: Path) -> None:
    place = root / "opt/nv/usr/lib64"
    place.mkdir(parents=True)
    (place / "libcuda.so.580.159.04").touch()
    config = tmp_path / "nvidia.yaml"
    config.write_text("driverRoot: /opt/nv")
    edits = NvidiaDriver(config, nvml=FakeNvml(Card(0)), root=root).common_edits()
    (mount,) = edits.mounts
    assert (mount.host_path, mount.container_path) == (
        "/opt/nv/usr/lib64/libcuda.so.580.159.04",
        "/usr/lib64/libcuda.so.580.159.04",
    )
    config.write_text("driverRoot: opt/nv")
    with pytest.raises(OptionError, match="driverRoot 'opt/nv' must be an absolute path"):
        NvidiaDriver(config, nvml=FakeNvml(Card(0)), root=root)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(OptionError, match="nvidia-ml-py is not installed"):
        NvidiaDriver()


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NVMLError(9)

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=refuse, NVMLError=NVMLError))
    with pytest.raises(OptionError, match="NVML cannot be used here: NVML error 9"):
        NvidiaDriver()
