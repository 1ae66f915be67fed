"""Containers without claims share the CPUs that no claim holds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cathedra.driver import OptionError
from cathedra.drivers.cpu import CpuDriver
from cathedra.drivers.cpu.sharedpool import SharedPool
from cathedra.drivers.hooks.cpuset import parse_cpus
from tests.unit.drivers.cpu.machine import build, write

EVERY = frozenset(range(4))
V1, V2 = "sys/fs/cgroup/cpuset", "sys/fs/cgroup"


def container(root: Path, name: str, cpus: str = "0-3", version: str = V1) -> Path:
    file = root / version / "kubepods" / name / "cpuset.cpus"
    write(file, cpus)
    return file


def pool(root: Path) -> SharedPool:
    return SharedPool(["kubepods"], EVERY, root / "lock", root)


@pytest.mark.parametrize("version", [V1, V2])
def test_containers_leave_claimed_cpus_and_come_back(tmp_path: Path, version: str) -> None:
    plain = container(tmp_path, "pod1/a", version=version)
    claimed = container(tmp_path, "pod2/b", "1", version=version)
    pod = container(tmp_path, "pod1", version=version)
    shared = pool(tmp_path)
    shared.sweep(frozenset({1, 2}))
    assert (plain.read_text(), claimed.read_text(), pod.read_text()) == ("0,3", "1\n", "0-3\n")
    shared.sweep(frozenset({1}))
    assert (plain.read_text(), claimed.read_text()) == ("0,2-3", "1\n")
    shared.sweep(frozenset())
    assert plain.read_text() == "0-3"


def test_a_cgroup_that_inherits_its_cpus_gets_its_own(tmp_path: Path) -> None:
    plain = container(tmp_path, "pod1/a", "", version=V2)
    pool(tmp_path).sweep(frozenset({0}))
    assert plain.read_text() == "1-3"


def test_where_claims_hold_every_cpu_nothing_can_be_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = container(tmp_path, "pod1/a")
    pool(tmp_path).sweep(EVERY)
    assert plain.read_text() == "0-3\n"
    assert "claims hold every CPU" in caplog.text


async def test_containers_that_come_later_and_claims_that_change_are_noticed(tmp_path: Path) -> None:
    first = container(tmp_path, "pod1/a")
    held, events = {1}, [asyncio.Event()]
    swept: asyncio.Queue[frozenset[int]] = asyncio.Queue()

    class Noting(SharedPool):
        def sweep(self, exclusive: frozenset[int]) -> None:
            super().sweep(exclusive)
            swept.put_nowait(exclusive)

    shared = Noting(["kubepods"], EVERY, tmp_path / "lock", tmp_path)
    keeping = asyncio.ensure_future(shared.keep(lambda: frozenset(held), lambda: events[-1]))
    async with asyncio.timeout(120):
        await swept.get()
        assert first.read_text() == "0,2-3"
        later = container(tmp_path, "pod2/b")
        while parse_cpus(later.read_text()) != {0, 2, 3}:
            await swept.get()
        held.add(2)
        old = events[-1]
        events.append(asyncio.Event())
        old.set()
        while parse_cpus(later.read_text()) != {0, 3}:
            await swept.get()
    keeping.cancel()
    await asyncio.wait((keeping,))


@pytest.fixture
def real() -> Iterator[str]:
    """The name of a cgroup of the kernel, below which containers may be made."""
    group = Path("/sys/fs/cgroup/cpuset") / f"cathedra-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cpusets of cgroup v1 can be made: {error.strerror}")
    try:
        yield group.name
    finally:
        for place, _, _ in os.walk(group, topdown=False):
            Path(place).rmdir()


def test_the_kernel_takes_what_is_written(real: str, tmp_path: Path) -> None:
    everything = parse_cpus(Path("/sys/fs/cgroup/cpuset/cpuset.cpus").read_text())
    if len(everything) < 2:
        pytest.skip("this machine has one CPU, which nothing can be kept off")
    group = Path("/sys/fs/cgroup/cpuset") / real
    files = [group / "cpuset.cpus", *(group / name / "cpuset.cpus" for name in ("plain", "claimed"))]
    taken = frozenset({min(everything)})
    for file, cpus in zip(files, (everything, everything, taken), strict=True):
        file.parent.mkdir(exist_ok=True)
        (file.parent / "cpuset.mems").write_text(Path("/sys/fs/cgroup/cpuset/cpuset.mems").read_text())
        file.write_text(",".join(map(str, sorted(cpus))))
    SharedPool([real], everything, tmp_path / "lock").sweep(taken)
    assert [parse_cpus(file.read_text()) for file in files] == [everything, everything - taken, taken]


def test_devices_say_which_pcie_roots_are_near_if_they_are_asked(tmp_path: Path) -> None:
    build(tmp_path)
    for name, cpus in (("0000:00", "0-3,8-11"), ("0000:80", "4-7,12-15"), ("0000:ff", "")):
        write(tmp_path / f"sys/devices/pci{name}/pci_bus/{name}/cpulistaffinity", cpus)
    (tmp_path / "sys/devices/pci-other").mkdir()
    silent, telling = tmp_path / "silent.yaml", tmp_path / "telling.yaml"
    silent.write_text("{}")
    telling.write_text("exposePCIeRoots: true")
    key = "resource.kubernetes.io/pcieRoot"
    assert [key in device.attributes for device in CpuDriver(silent, tmp_path).devices()] == [False, False]
    devices: list[Any] = CpuDriver(telling, tmp_path).devices()
    assert [device.attributes[key] for device in devices] == [["pci0000:00"], ["pci0000:80"]]


@pytest.mark.parametrize("group", ["", "/kubepods", "../x"])
def test_a_group_that_is_none_is_refused(tmp_path: Path, group: str) -> None:
    (tmp_path / "cpus.yaml").write_text(f"sharedCgroups: ['{group}']")
    with pytest.raises(OptionError, match="must be a cgroup below the root"):
        CpuDriver(tmp_path / "cpus.yaml")
