"""Resource usage of a container from the kernel: of its cgroup if it has one, otherwise process by process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cathedra.node.runtime.runtime import ContainerUsage

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_NANOSECONDS: Final = 10**9
_TICK: Final = _NANOSECONDS // os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MOST_PROCESSES: Final = 4096
"""Maximum number of a container's processes that are read."""
_TIMES: Final = slice(11, 15)
"""Fields of ``/proc/PID/stat`` after the name: user and system time of the process and of its children that have ended,
in ticks.
"""
_RESIDENT: Final = 21
"""Its pages in memory."""


def usage_of_process(
    pid: int, *, own_cgroup: bool, proc: Path = _PROC, cgroups: Path = _CGROUPS
) -> ContainerUsage | None:
    """Return the usage of the container with the first process ``pid``; None if that has ended.

    ``own_cgroup``: True if it has a cgroup of its own. Cgroups of version 1 are not read.
    """
    if own_cgroup and (found := _of_cgroup(pid, proc, cgroups)) is not None:
        return found
    return _of_tree(pid, proc)


def _of_cgroup(pid: int, proc: Path, cgroups: Path) -> ContainerUsage | None:
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        unified = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
        place = cgroups / unified
        cpu, memory = _numbers(place / "cpu.stat"), _numbers(place / "memory.stat")
        held = int((place / "memory.current").read_text())
    except (OSError, ValueError, StopIteration):
        return None
    return ContainerUsage(cpu.get("usage_usec", 0) * 1000, max(0, held - memory.get("inactive_file", 0)))


def _numbers(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}


def _of_tree(pid: int, proc: Path) -> ContainerUsage | None:
    ticks = pages = seen = 0
    waiting = [pid]
    while waiting and seen < _MOST_PROCESSES:
        one = waiting.pop()
        try:
            fields = (proc / str(one) / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[_TIMES])
            pages += int(fields[_RESIDENT])
            for children in (proc / str(one) / "task").glob("*/children"):
                waiting.extend(int(child) for child in children.read_text().split())
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        seen += 1
    return ContainerUsage(ticks * _TICK, pages * _PAGE) if seen else None
