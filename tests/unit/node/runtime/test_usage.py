"""Figures of a container in the kernel's files."""

from __future__ import annotations

import os
from pathlib import Path

from cathedra.node.runtime.runtime import ContainerUsage
from cathedra.node.runtime.usage import usage_of_process

TICK = 10**9 // os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def process(proc: Path, pid: int, ticks: tuple[int, int, int, int], pages: int, *children: int) -> None:
    """A process as ``/proc`` shows it; its name is as odd as names can be."""
    place = proc / str(pid)
    (place / "task" / str(pid)).mkdir(parents=True)
    fields = ["S", *["0"] * 10, *map(str, ticks), *["0"] * 6, str(pages), "0"]
    (place / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
    (place / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))


def test_without_a_cgroup_the_processes_are_summed_up(tmp_path: Path) -> None:
    process(tmp_path, 7, (1, 2, 3, 4), 10, 8, 9)
    process(tmp_path, 8, (5, 0, 0, 0), 1)
    # 9 has ended meanwhile
    assert usage_of_process(7, own_cgroup=False, proc=tmp_path) == ContainerUsage(15 * TICK, 11 * PAGE)
    assert usage_of_process(1, own_cgroup=False, proc=tmp_path) is None


def test_a_cgroup_of_its_own_has_counted_everything(tmp_path: Path) -> None:
    process(tmp_path, 7, (1, 0, 0, 0), 1)
    (tmp_path / "7" / "cgroup").write_text("0::/node/c1\n")
    place = tmp_path / "groups" / "node" / "c1"
    place.mkdir(parents=True)
    (place / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (place / "memory.stat").write_text("anon 1\ninactive_file 4096\n")
    (place / "memory.current").write_text("12288\n")
    cgroups = tmp_path / "groups"
    found = usage_of_process(7, own_cgroup=True, proc=tmp_path, cgroups=cgroups)
    assert found == ContainerUsage(1_500_000, 8192)
    (place / "memory.current").unlink()
    assert usage_of_process(7, own_cgroup=True, proc=tmp_path, cgroups=cgroups) == ContainerUsage(TICK, PAGE)


def test_this_process_can_be_measured() -> None:
    found = usage_of_process(os.getpid(), own_cgroup=False)
    assert found is not None
    assert found.memory > 0
