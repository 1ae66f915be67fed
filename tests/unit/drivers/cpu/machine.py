"""A machine in sysfs: sockets, NUMA nodes, caches, cores and their threads."""

from __future__ import annotations

from pathlib import Path

from cathedra.drivers.hooks.cpuset import format_cpus


def build(root: Path, *, sockets: int = 2, caches: int = 2, cores: int = 2, threads: int = 2) -> Path:
    """A machine with one NUMA node per socket; CPUs are numbered thread by thread, as the kernel does on x86."""
    system = root / "sys/devices/system"
    count = sockets * caches * cores
    write(system / "cpu/online", f"0-{count * threads - 1}")
    for core in range(count):
        cpus = [core + count * thread for thread in range(threads)]
        socket, cache = core // (caches * cores), core // cores
        of_cache = [c + count * t for c in range(count) if c // cores == cache for t in range(threads)]
        for cpu in cpus:
            place = system / f"cpu/cpu{cpu}"
            write(place / "topology/physical_package_id", str(socket))
            write(place / "topology/core_id", str(core % (caches * cores)))
            write(place / "topology/core_cpus_list", format_cpus(cpus))
            write(place / "cache/index0/level", "1")
            write(place / "cache/index3/level", "3")
            write(place / "cache/index3/id", str(cache))
            write(place / "cache/index3/shared_cpu_list", format_cpus(of_cache))
    for node in range(sockets):
        of_node = [c + count * t for c in range(count) if c // (caches * cores) == node for t in range(threads)]
        write(system / f"node/node{node}/cpulist", format_cpus(of_node))
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
