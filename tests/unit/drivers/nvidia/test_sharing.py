"""Sharing of GPUs and partitions as claims request it, by NVIDIA's own programs, and its end."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.driver import DriverError
from cathedra.driver.kit import Kit, KitError, check_driver
from cathedra.drivers.nvidia import NvidiaDriver
from cathedra.drivers.nvidia.config import GpuConfig, MpsConfig
from cathedra.drivers.nvidia.driverfiles import find_driver_files
from cathedra.drivers.nvidia.sharing import HostCommands, SharingError
from tests.unit.drivers.nvidia.fake import Card, FakeNvml, machine

UUID = "GPU-00000000-1111-2222-3333-444444444444"


class Recorded:
    """Calls of programs, which all succeed by default."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing = ""

    async def run(self, words: Sequence[str], *, env: Mapping[str, str] = {}, stdin: str = "") -> None:
        devices = [f"{name}={value}" for name, value in env.items() if name == "CUDA_VISIBLE_DEVICES"]
        self.calls.append(" ".join([*devices, *words, *([f"< {stdin.strip()}"] if stdin else [])]))
        if self.failing and self.failing in self.calls[-1]:
            raise SharingError(f"{words[0]}: no")


def sharing(kind: str = "GpuConfig", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": fields}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine(tmp_path, 0, 1)


def bench(root: Path, commands: Recorded, *cards: Card) -> Kit:
    return Kit(lambda: NvidiaDriver(nvml=FakeNvml(*cards), root=root, commands=commands))


async def test_a_gpu_gets_its_interval_and_the_default_again(root: Path) -> None:
    commands = Recorded()
    async with bench(root, commands, Card(0)) as kit:
        config = sharing(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})
        claim = await kit.claim("gpu-0", config=config)
        await kit.prepare(claim)
        mode = f"nvidia-smi -i {UUID} -c DEFAULT"
        assert commands.calls == [mode, f"nvidia-smi compute-policy -i {UUID} --set-timeslice 3"]
        await kit.restart()
        commands.calls.clear()
        await kit.unprepare(claim)
        assert commands.calls == [mode, f"nvidia-smi compute-policy -i {UUID} --set-timeslice 0"]


async def test_without_parameters_nothing_is_changed_on_a_gpu(root: Path) -> None:
    commands = Recorded()
    async with bench(root, commands, Card(0)) as kit:
        claim = await kit.claim("gpu-0")
        await kit.prepare(claim)
        await kit.unprepare(claim)
    assert commands.calls == []


async def test_a_claim_gets_a_daemon_of_its_own_and_containers_its_pipes(root: Path) -> None:
    commands = Recorded()
    mps = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}
    async with bench(root, commands, Card(0)) as kit:
        claim = await kit.claim("gpu-0", config=sharing(strategy="MPS", mpsConfig=mps))
        edits = kit.edits(await kit.prepare(claim))
        (place,) = (root / "var/run/gpu.nvidia.com/mps").iterdir()
        assert commands.calls == [
            f"nvidia-smi -i {UUID} -c EXCLUSIVE_PROCESS",
            f"CUDA_VISIBLE_DEVICES={UUID} nvidia-cuda-mps-control -d",
            f"CUDA_VISIBLE_DEVICES={UUID} nvidia-cuda-mps-control < set_default_active_thread_percentage 50",
            f"CUDA_VISIBLE_DEVICES={UUID} nvidia-cuda-mps-control < set_default_device_pinned_mem_limit {UUID} 10240M",
        ]
        assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in edits.env
        mounts = {mount.container_path: mount.host_path for mount in edits.mounts}
        assert (mounts["/tmp/nvidia-mps"], mounts["/dev/shm"]) == (str(place / "pipe"), "/dev/shm")
        await kit.restart()
        commands.calls.clear()
        await kit.unprepare(claim)
        assert commands.calls[:2] == ["nvidia-cuda-mps-control < quit", f"nvidia-smi -i {UUID} -c DEFAULT"]
        assert not place.exists()


async def test_a_daemon_that_does_not_start_fails_the_claim_and_leaves_nothing(root: Path) -> None:
    commands = Recorded()
    commands.failing = "-d"
    async with bench(root, commands, Card(0)) as kit:
        with pytest.raises(KitError, match="nvidia-cuda-mps-control: no"):
            await kit.prepare(await kit.claim("gpu-0", config=sharing(strategy="MPS")))
    assert list((root / "var/run/gpu.nvidia.com/mps").iterdir()) == []


async def test_partitions_of_a_claim_that_fails_are_removed(root: Path) -> None:
    commands, card = Recorded(), Card(0, mig=True)
    commands.failing = "-d"
    async with bench(root, commands, card) as kit:
        claim = await kit.claim("gpu-0-mig-1g10gb-19-0", config=sharing("MigDeviceConfig", strategy="MPS"))
        with pytest.raises(KitError, match="nvidia-cuda-mps-control: no"):
            await kit.prepare(claim)
        assert card.made == {}
        commands.failing = ""
        await kit.prepare(claim)
        assert card.made == {1: (0, 1)}


async def test_a_partition_is_served_by_a_daemon_and_its_gpu_is_not_made_exclusive(root: Path) -> None:
    commands, card = Recorded(), Card(0, mig=True)
    async with bench(root, commands, card) as kit:
        config = sharing("MigDeviceConfig", strategy="MPS")
        claim = await kit.claim("gpu-0-mig-1g10gb-19-0", config=config)
        await kit.prepare(claim)
        assert commands.calls == ["CUDA_VISIBLE_DEVICES=MIG-0-1 nvidia-cuda-mps-control -d"]
        await kit.unprepare(claim)
        assert commands.calls[1:] == ["nvidia-cuda-mps-control < quit"]
    assert card.made == {}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"strategy": "Fabric"}, "Invalid enum value 'Fabric'"),
        ({"strategy": "TimeSlicing", "mpsConfig": {}}, "cannot use MpsConfig with the 'TimeSlicing' strategy"),
        ({"strategy": "MPS", "timeSlicingConfig": {}}, "cannot use TimeSlicingConfig with the 'MPS' strategy"),
        ({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Never"}}, "Invalid enum value 'Never'"),
        ({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": -1}}, "must not be negative"),
        ({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}}, "must not be greater than 100"),
        ({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1Ki"}}, "set too low: 1Ki"),
        ({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "much"}}, "invalid limit"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert({"sharing": fields}, GpuConfig)


def test_limits_are_of_all_devices_or_of_one_by_index_or_uuid() -> None:
    config = MpsConfig(
        default_pinned_device_memory_limit="1Gi", default_per_device_pinned_memory_limit={"1": "2Gi", "GPU-c": "3Gi"}
    )
    assert config.memory_limits(["GPU-a", "GPU-b", "GPU-c"]) == {"GPU-a": "1024M", "GPU-b": "2048M", "GPU-c": "3072M"}
    with pytest.raises(DriverError, match="invalid device: GPU-c"):
        config.memory_limits(["GPU-a", "GPU-b"])


async def test_programs_are_those_of_the_machine_and_their_failure_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "usr/bin"
    folder.mkdir(parents=True)
    program = folder / "nvidia-smi"
    script = ['echo "$@ $WHO $(cat)" > "$(dirname "$0")/called"', '[ "$1" != fail ] || { echo no GPU; exit 9; }']
    program.write_text("\n".join(("#!/bin/sh", *script, "")))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    commands = HostCommands(tmp_path)
    await commands.run(("nvidia-smi", "-i", "0"), env={"WHO": "me"}, stdin="quit\n")
    assert (folder / "called").read_text() == "-i 0 me quit\n"
    with pytest.raises(SharingError, match="nvidia-smi fail: no GPU"):
        await commands.run(("nvidia-smi", "fail"))
    with pytest.raises(SharingError, match="nvidia-cuda-mps-control: No such file"):
        await commands.run(("nvidia-cuda-mps-control", "-d"))


async def test_programs_are_those_of_the_driver_root(tmp_path: Path) -> None:
    """A driver container has them below its own root, beside a C library that the machine's programs must not load."""
    home = tmp_path / "run/nvidia/driver/usr"
    (home / "bin").mkdir(parents=True)
    program = home / "bin/nvidia-smi"
    program.write_text('#!/bin/sh\necho "$@ $LD_PRELOAD" > "$(dirname "$0")/called"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (home / "lib64").mkdir()
    for name in ("libcuda.so.580.1", "libnvidia-ml.so.580.1"):
        (home / "lib64" / name).touch()
    files = find_driver_files("580.1", tmp_path, Path("/run/nvidia/driver"))
    await HostCommands(tmp_path, files).run(("nvidia-smi", "-L"))
    assert (home / "bin/called").read_text() == f"-L {home}/lib64/libnvidia-ml.so.580.1\n"


async def test_the_driver_keeps_the_contract_with_parameters(root: Path) -> None:
    verdicts = await check_driver(lambda: NvidiaDriver(nvml=FakeNvml(Card(0)), root=root, commands=Recorded()))
    assert [(one.check.name, one.reason) for one in verdicts if one.outcome == "failed"] == []
