"""What sysfs says of CPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cathedra.driver import DriverError
from cathedra.drivers.cpu.topology import Cpu, read_topology
from tests.unit.drivers.cpu.machine import build, write


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
