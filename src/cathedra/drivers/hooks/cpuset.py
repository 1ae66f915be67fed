"""Pins a container to the CPUs of its claims: ``python -m cathedra.drivers.hooks.cpuset``.

The CPUs are in the container's variables, one for each device (``DRA_CPUSET_…=0-3,8``), so that a container with
several claims runs on all of theirs, however often the hook runs. They are set in the container's cgroup, of either
version; without a cgroup with a cpuset, as affinity of the first process, which others inherit but could change.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cathedra.drivers.hooks.state import ContainerState, HookError, fail, read_state

PREFIX: Final = "DRA_CPUSET_"
"""Prefix of the variables."""


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list as the kernel writes it, ``0-3,8``.

    Raises:
        ValueError: it is no such list.
    """
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """Return CPUs as a list of the kernel."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def pin(state: ContainerState, root: Path = Path("/"), lock: Path | None = None) -> str:
    """Let the container run on the CPUs of its claims alone; answers how that was done.

    ``lock``: a file that is locked meanwhile, where the driver writes the cpusets of other containers.

    Raises:
        HookError: the kernel refuses.
    """
    sets = [value for name, value in state.environment().items() if name.startswith(PREFIX)]
    cpus = frozenset[int]().union(*map(parse_cpus, sets))
    if not cpus:
        return "no CPUs were claimed"
    file = _cpuset_file(state.pid, root)
    try:
        if file is None:
            os.sched_setaffinity(state.pid, cpus)
            return f"affinity {format_cpus(cpus)}"
        with _locked(lock):
            file.write_text(format_cpus(cpus))
    except OSError as error:
        raise HookError(f"CPUs {format_cpus(cpus)}: {error.strerror}: {file or 'affinity'}") from error
    return f"{file}: {format_cpus(cpus)}"


@contextlib.contextmanager
def _locked(lock: Path | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cpuset_file(pid: int, root: Path) -> Path | None:
    """Return the file with the CPUs of the container's cgroup; None: no cgroup of its own has one."""
    try:
        lines = (root / "proc" / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if path == "/" or (controllers and "cpuset" not in controllers.split(",")):
            continue
        folder = root / "sys/fs/cgroup" / (controllers and "cpuset") / path.lstrip("/")
        if (folder / "cpuset.cpus").exists():
            return folder / "cpuset.cpus"
    return None


def main() -> None:
    """Pin the container that standard input describes; exit with an error if that fails."""
    try:
        pin(read_state(sys.stdin), lock=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except (HookError, ValueError) as error:
        fail("cpuset hook", error)


if __name__ == "__main__":
    main()
