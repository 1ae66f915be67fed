"""CPUs of a machine and their relations, from sysfs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.driver import DriverError
from cathedra.drivers.hooks.cpuset import parse_cpus

_INDEX: Final = re.compile(r"(?:cpu|node|index)(\d+)")
_LAST_LEVEL: Final = 3
_PCIE_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Cpu:
    """A logical CPU and its place in the machine."""

    id: int
    core: int
    """The same for the threads of a core, and for no other CPU of the machine: the lowest of their IDs."""
    core_id: int
    """The machine's core number, unique within a socket."""
    socket: int
    numa_node: int
    cache: int
    """The last level cache that it shares with others: the kernel's number, or the lowest CPU that shares it."""
    kind: str
    """``standard``, ``p-core`` or ``e-core``."""
    threads: int
    """Threads of its core that are online."""


def read_topology(root: Path = Path("/")) -> tuple[Cpu, ...]:
    """Return all online CPUs by ID.

    Raises:
        DriverError: the machine does not list them.
    """
    system = root / "sys/devices/system"
    online = _cpus(system / "cpu/online")
    if not online:
        raise DriverError(f"{system}/cpu/online names no CPUs")
    nodes = {cpu: number for number, cpus in _numbered(system / "node", "node", "cpulist") for cpu in cpus}
    kinds = {
        cpu: kind
        for name, kind in (("cpu_core", "p-core"), ("cpu_atom", "e-core"))
        for cpu in _cpus(root / "sys/devices" / name / "cpus")
    }
    return tuple(_cpu(system / "cpu" / f"cpu{cpu}", cpu, online, nodes, kinds) for cpu in sorted(online))


def pcie_roots(root: Path = Path("/")) -> dict[str, frozenset[int]]:
    """The PCIe roots of the machine, as ``pci0000:00``, and the CPUs that each is near."""
    found = {place.name: place for place in (root / "sys/devices").glob("pci*") if _PCIE_ROOT.fullmatch(place.name)}
    return {
        name: _cpus(place / "pci_bus" / name.removeprefix("pci") / "cpulistaffinity")
        for name, place in sorted(found.items())
    }


def _cpu(place: Path, cpu: int, online: frozenset[int], nodes: dict[int, int], kinds: dict[int, str]) -> Cpu:
    # The second name is that of kernels before 5.3.
    threads = _cpus(place / "topology/core_cpus_list") or _cpus(place / "topology/thread_siblings_list")
    threads = (threads & online) or frozenset({cpu})
    return Cpu(
        id=cpu,
        core=min(threads),
        core_id=_number(place / "topology/core_id", cpu),
        socket=_number(place / "topology/physical_package_id", 0),
        numa_node=nodes.get(cpu, 0),
        cache=_cache(place / "cache", cpu),
        kind=kinds.get(cpu, "standard"),
        threads=len(threads),
    )


def _cache(place: Path, cpu: int) -> int:
    """The cache of the third level, else the last one that is shared."""
    levels: dict[int, Path] = {}
    for index in place.glob("index[0-9]*"):
        levels[_number(index / "level", 0)] = index
    if not levels:
        return cpu
    chosen = levels.get(_LAST_LEVEL) or levels[max(levels)]
    return _number(chosen / "id", min(_cpus(chosen / "shared_cpu_list") or {cpu}))


def _numbered(folder: Path, prefix: str, file: str) -> list[tuple[int, frozenset[int]]]:
    found = []
    for place in folder.glob(f"{prefix}[0-9]*"):
        index = _INDEX.fullmatch(place.name)
        if index is not None:
            found.append((int(index[1]), _cpus(place / file)))
    return sorted(found)


def _cpus(path: Path) -> frozenset[int]:
    try:
        return parse_cpus(path.read_text())
    except (OSError, ValueError):
        return frozenset()


def _number(path: Path, default: int) -> int:
    """A number of sysfs; a negative one means that the machine does not know."""
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        return default
    return number if number >= 0 else default
