"""CPUs are published, given to one claim each, and given back."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceRequestAllocationResult
from cathedra.driver import DriverError, DriverRunner, MemoryFiles, OptionError
from cathedra.driver.kit import check_driver
from cathedra.drivers.cpu import Cpu, CpuDriver, SharedPool, choose, read_topology
from cathedra.drivers.hooks.cpuset import parse_cpus
from tests.running import beside, run_with
from tests.unit.driver.world import NODE, SHARES, World, in_virtual_time, result
from tests.unit.drivers.cpu.machine import build, write

CPU = "dra.cpu/cpu"


def driver(place: Path, text: str = "") -> CpuDriver:
    root = place / "root"
    if not root.exists():
        build(root)
    (place / "cpus.yaml").write_text(text)
    return CpuDriver(place / "cpus.yaml", root)


def share(device: str, count: int, share_id: str = SHARES[0]) -> DeviceRequestAllocationResult:
    return result(device, driver="dra.cpu", request="cpus", share_id=share_id, consumed_capacity={CPU: Quantity(count)})


class Prepared:
    """Return a runner, and the CPUs in the variables of its containers."""

    def __init__(self, runner: DriverRunner, files: MemoryFiles) -> None:
        self.runner, self.files = runner, files
        runner.service.open()

    async def cpus(self, world: World, name: str, *results: DeviceRequestAllocationResult) -> list[frozenset[int]]:
        ref = await world.allocate(name, *results)
        answer = (await self.runner.service.node_prepare_resources([ref]))[ref.uid]
        assert answer.error == ""
        return self.told(ref.uid)

    def told(self, uid: str) -> list[frozenset[int]]:
        (content,) = (content for path, content in self.files.contents.items() if f"{uid}.json" in path.name)
        devices = json.loads(content)["devices"]
        return [parse_cpus(device["containerEdits"]["env"][0].partition("=")[2]) for device in devices]


@pytest.mark.parametrize(
    ("grouping", "names"),
    [
        ("machine", ["cpudevmachine"]),
        ("socket", ["cpudevsocket000", "cpudevsocket001"]),
        ("numanode", ["cpudevnuma000", "cpudevnuma001"]),
        ("cache", [f"cpudevcache{i:03}" for i in range(4)]),
        ("core", [f"cpudevcore{i:03}" for i in range(8)]),
    ],
)
def test_groups_are_named_and_sized_after_what_they_share(tmp_path: Path, grouping: str, names: Sequence[str]) -> None:
    devices = [device.to_api() for device in driver(tmp_path, f"groupBy: {grouping}").devices()]
    assert [device.name for device in devices] == names
    assert {device.capacity[CPU].value for device in devices} == {Quantity(16 // len(names))}
    assert all(device.allow_multiple_allocations for device in devices)


def test_a_single_cpu_says_where_it_is(tmp_path: Path) -> None:
    devices = [device.to_api() for device in driver(tmp_path, "cpuDeviceMode: individual").devices()]
    attributes = {name: value.int_ for name, value in devices[13].attributes.items() if value.int_ is not None}
    assert devices[13].name == "cpudev013"
    assert attributes == {
        "dra.cpu/cpuID": 13,
        "dra.cpu/coreID": 1,
        "dra.cpu/cacheL3ID": 2,
        "dra.cpu/socketID": 1,
        "resource.kubernetes.io/numaNode": 1,
        "dra.cpu/numaNodeID": 1,
        "dra.net/numaNode": 1,
    }
    assert devices[13].attributes["dra.cpu/smtEnabled"].bool_ is True


def test_reserved_cpus_are_not_offered(tmp_path: Path) -> None:
    (first, second) = driver(tmp_path, "reservedCPUs: 0-1").devices()
    assert (first.attributes["dra.cpu/numCPUs"], second.attributes["dra.cpu/numCPUs"]) == (6, 8)
    with pytest.raises(OptionError, match="must be a list of CPUs as 0-1,8"):
        driver(tmp_path, "reservedCPUs: some")


def test_cpus_count_with_the_nodes_own_where_that_is_wanted(tmp_path: Path) -> None:
    (device, _) = driver(tmp_path, "publishNodeAllocatableResourceMapping: true").devices()
    mapping = device.to_api().node_allocatable_resources["cpu"].mapping
    assert mapping is not None
    assert (mapping.capacity_key, mapping.capacity_multiplier) == (CPU, Quantity("1"))


@run_with(in_virtual_time)
async def test_claims_get_cpus_of_their_own_also_from_a_new_process(world: World, *, tmp_path: Path) -> None:
    files = MemoryFiles()
    first = Prepared(world.runner(driver(tmp_path), files=files), files)
    (one,) = await first.cpus(world, "a", share("cpudevnuma000", 4))
    assert one == {0, 8, 1, 9}
    second = Prepared(world.runner(driver(tmp_path), files=files), files)
    (other,) = await second.cpus(world, "b", share("cpudevnuma000", 4, SHARES[1]))
    assert other == {2, 10, 3, 11}


@run_with(in_virtual_time)
async def test_cpus_that_are_given_back_can_be_had_again(world: World, *, tmp_path: Path) -> None:
    files = MemoryFiles()
    bench = Prepared(world.runner(driver(tmp_path), files=files), files)
    ref = await world.allocate("a", share("cpudevnuma001", 8))
    await bench.runner.service.node_prepare_resources([ref])
    late = await world.allocate("b", share("cpudevnuma001", 1, SHARES[1]))
    refused = (await bench.runner.service.node_prepare_resources([late]))[late.uid].error
    assert refused == "cpudevnuma001 has fewer than 1 CPUs that no claim holds"
    await bench.runner.service.node_unprepare_resources([ref])
    assert (await bench.runner.service.node_prepare_resources([late]))[late.uid].error == ""


@pytest.mark.parametrize("restarted", [False, True])
@run_with(in_virtual_time)
async def test_a_claim_on_the_last_cpus_is_refused_where_other_containers_need_some(
    world: World, *, tmp_path: Path, restarted: bool
) -> None:
    files = MemoryFiles()
    text = "groupBy: machine\nsharedCgroups: [kubepods]"
    first = Prepared(world.runner(driver(tmp_path, text), files=files), files)
    (held,) = await first.cpus(world, "most", share("cpudevmachine", 12))
    if restarted:
        first = Prepared(world.runner(driver(tmp_path, text), files=files), files)
    ref = await world.allocate("rest", share("cpudevmachine", 4, SHARES[1]))
    answer = (await first.runner.service.node_prepare_resources([ref]))[ref.uid]
    assert "claim default/rest would hold the last CPUs of this node" in answer.error
    assert "set reservedCPUs" in answer.error
    assert await first.runner.service.node_unprepare_resources([ref]) == {ref.uid: ""}
    # What was refused holds nothing.
    (other,) = await first.cpus(world, "some", share("cpudevmachine", 3, SHARES[1]))
    assert (len(other), other & held) == (3, frozenset())


@pytest.mark.parametrize("mode", ["grouped", "individual"])
async def test_the_driver_keeps_the_contract(tmp_path: Path, mode: str) -> None:
    verdicts = await check_driver(lambda: driver(tmp_path, f"cpuDeviceMode: {mode}"))
    assert [(one.check.name, one.reason) for one in verdicts if one.outcome == "failed"] == []


@pytest.mark.skipif(not os.path.exists("/sys/devices/system/cpu/online"), reason="this machine has no sysfs")
def test_the_cpus_of_this_machine_are_offered() -> None:
    made = CpuDriver()
    made.install(NODE, lambda: None)
    total = sum(int(str(device.attributes["dra.cpu/numCPUs"])) for device in made.devices())
    assert total >= len(os.sched_getaffinity(0))


def cpu(number: int) -> Cpu:
    """One of sixteen CPUs: eight cores of two threads, four caches of two cores."""
    core = number % 8
    return Cpu(number, core, core, 0, 0, core // 2, "standard", 2)


CPUS = [cpu(number) for number in range(16)]


def test_whole_cores_come_first() -> None:
    assert choose(CPUS, 2, ()) == {0, 8}
    assert choose(CPUS, 4, ()) == {0, 8, 1, 9}


def test_the_emptiest_cache_is_preferred_so_that_little_is_shared() -> None:
    assert choose(CPUS, 4, {0}) == {2, 10, 3, 11}


def test_a_single_thread_comes_from_a_core_in_use() -> None:
    assert choose(CPUS, 1, {5}) == {13}
    assert choose(CPUS, 3, {5}) == {0, 8, 13}


def test_too_few_are_none() -> None:
    assert choose(CPUS, 17, ()) is None
    assert choose(CPUS, 1, range(16)) is None


@given(st.integers(0, 16), st.sets(st.integers(0, 15)))
def test_as_many_as_asked_for_all_free_and_the_same_at_every_try(count: int, taken: set[int]) -> None:
    chosen = choose(CPUS, count, taken)
    if count > 16 - len(taken):
        assert chosen is None
        return
    assert chosen is not None
    assert len(chosen) == count
    assert not chosen & taken
    assert choose(CPUS[::-1], count, taken) == chosen


# Containers without claims share the CPUs that no claim holds.

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
    async with beside(shared.keep(lambda: frozenset(held), lambda: events[-1])):
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


# Facts about CPUs in sysfs.


def test_threads_share_a_core_cores_a_cache_and_sockets_a_node(tmp_path: Path) -> None:
    cpus = read_topology(build(tmp_path))
    assert len(cpus) == 16
    assert cpus[13] == Cpu(id=13, core=5, core_id=1, socket=1, numa_node=1, cache=2, kind="standard", threads=2)
    assert {cpu.cache for cpu in cpus if cpu.numa_node == 0} == {0, 1}


def test_cpus_that_are_offline_are_left_out_and_their_siblings_are_alone(tmp_path: Path) -> None:
    write(build(tmp_path) / "sys/devices/system/cpu/online", "0-7")
    cpus = read_topology(tmp_path)
    assert [cpu.id for cpu in cpus] == list(range(8))
    assert {cpu.threads for cpu in cpus} == {1}


def test_machines_with_two_kinds_of_cores_say_which(tmp_path: Path) -> None:
    root = build(tmp_path, sockets=1)
    write(root / "sys/devices/cpu_core/cpus", "0-3")
    write(root / "sys/devices/cpu_atom/cpus", "4-7")
    assert [cpu.kind for cpu in read_topology(root)] == ["p-core"] * 4 + ["e-core"] * 4


def test_a_machine_that_tells_little_has_cpus_that_stand_alone(tmp_path: Path) -> None:
    write(tmp_path / "sys/devices/system/cpu/online", "0-1")
    write(tmp_path / "sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")
    first, second = read_topology(tmp_path)
    assert (first.socket, first.numa_node, first.core, first.threads) == (0, 0, 0, 1)
    assert second.cache == 1


def test_no_cpus_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="names no CPUs"):
        read_topology(tmp_path)


@pytest.mark.skipif(not os.path.exists("/sys/devices/system/cpu/online"), reason="this machine has no sysfs")
def test_this_machine_is_understood() -> None:
    cpus = read_topology()
    assert set(os.sched_getaffinity(0)) <= {cpu.id for cpu in cpus}
    assert all(cpu.core <= cpu.id for cpu in cpus)
