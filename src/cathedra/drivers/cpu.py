"""A driver for the CPUs of a machine: a claim gets CPUs of its own, near each other and near its other devices.

CPUs, cores, caches, sockets and NUMA nodes are read from sysfs, and CPUs are published one by one or in groups.
A claim's CPUs are exclusive among claims. Containers without a claim are kept off them if the configuration names their
cgroups (`SharedPool`). CPUs of a group are chosen as whole cores first, near each other, and deterministically.
Names of devices, attributes and capacities are those of the Kubernetes project's driver
(kubernetes-sigs/dra-driver-cpu), so its manifests work.

    cathedra driver --module cathedra.drivers.cpu:CpuDriver --driver-config cpus.yaml --node node-0

The configuration:

    cpuDeviceMode: grouped        # or individual: every CPU is a device
    groupBy: numanode             # or machine, socket, cache, core
    reservedCPUs: 0-1             # never given to claims
    publishNodeAllocatableResourceMapping: false
    exposePCIeRoots: false        # the gate DRAListTypeAttributes is needed
    sharedCgroups: [kubepods]     # containers without claims, below these cgroups, are kept off claimed CPUs
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from cathedra.api.quantity import Quantity
from cathedra.api.resource import NodeAllocatableMapping, NodeAllocatableResource
from cathedra.client.client import Client
from cathedra.driver import (
    Claim,
    Device,
    Driver,
    DriverError,
    Edits,
    Hook,
    Prepared,
    PreparedClaim,
    Ref,
)
from cathedra.driver.claim import ClaimedDevice
from cathedra.driver.device import AttributeValue
from cathedra.drivers.configfile import read_config
from cathedra.drivers.hooks.cpuset import PREFIX, format_cpus, parse_cpus
from cathedra.files.inotify import Inotify

__all__ = ["CpuDriver"]

CAPACITY: Final = "dra.cpu/cpu"
_NAMES: Final[Mapping[Grouping, str]] = {
    "machine": "cpudevmachine",
    "socket": "cpudevsocket",
    "numanode": "cpudevnuma",
    "cache": "cpudevcache",
    "core": "cpudevcore",
}


class CpuDriver(Driver):
    """The CPUs of this machine."""

    cdi_vendor = "dra.k8s.io"
    cdi_class = "cpu"
    validate_names = False

    def __init__(self, config: Path | None = None, root: Path = Path("/")) -> None:
        """``root``: directory below which the machine's files are read.

        Raises:
            OptionError: the configuration is invalid.
            DriverError: the machine does not list its CPUs.
        """
        self.config = read_config(config, CpuConfig)
        self.name = self.config.driver
        reserved = parse_cpus(self.config.reserved)
        every = read_topology(root)
        self._cpus = tuple(cpu for cpu in every if cpu.id not in reserved)
        self._online = frozenset(cpu.id for cpu in every)
        self._roots = pcie_roots(root) if self.config.pcie_roots else {}
        self._root = root
        self._changed = asyncio.Event()
        self._taken: dict[str, dict[str, frozenset[int]]] = {}
        """Claim UID → device and share → CPUs."""

    def devices(self) -> list[Device]:
        """Return CPUs, or groups of them of which a claim takes a number."""
        if self.config.mode == "individual":
            return [self._single(cpu) for cpu in self._cpus]
        return [self._group(name, cpus) for name, cpus in self._groups().items()]

    def resume(self, prepared: Sequence[PreparedClaim]) -> None:
        """Restore the CPUs that an earlier process has given out: they stay taken."""
        self._taken = {
            claim.ref.uid: {
                f"{device.device}/{device.share_id}": parse_cpus(str(device.memory.get("cpus", "")))
                for device in claim.devices
            }
            for claim in prepared
        }

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Choose CPUs, and yield the edits that pin the container to them.

        Raises:
            DriverError: no CPUs of a group are left, although its capacity was sufficient; or the claim would leave
                none to containers without claims.
        """
        # A repeated call must return the same CPUs: a container may be pinned to them already.
        mine = dict(self._taken.get(claim.uid, {}))
        lock = () if self.directory is None else (str(self.directory.absolute() / LOCK_FILE),)
        held = [self._cpus_for(allocation, mine) for allocation in claim.allocations]
        self._keep_some_shared(claim, mine)
        self._taken[claim.uid] = mine
        for allocation, cpus in zip(claim.allocations, held, strict=True):
            shown = format_cpus(cpus)
            name = f"{PREFIX}{claim.uid}_{allocation.device}".replace("-", "_")
            if allocation.share_id is not None:
                name += f"_{allocation.share_id[:8]}"
            hook = Hook(
                hook_name="createRuntime",
                path=sys.executable,
                args=(sys.executable, "-m", "cathedra.drivers.hooks.cpuset", *lock),
            )
            yield allocation.prepared(
                Edits(env={name: shown}, hooks=[hook]),
                metadata={"dra.cpu/allocatedNumCPUs": len(cpus)},
                memory={"cpus": shown},
            )
        self._notify()

    def _keep_some_shared(self, claim: Claim, mine: Mapping[str, frozenset[int]]) -> None:
        # An empty cpuset is no error for the kernel: the cgroup would then have all CPUs of its parent, the claimed
        # ones included.
        if not self.config.shared or self._online - self._exclusive().union(*mine.values()):
            return
        raise DriverError(
            f"claim {claim.ref} would hold the last CPUs of this node, and containers without claims would share them; "
            "set reservedCPUs, so that the scheduler knows of CPUs that no claim can have"
        )

    def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        """Release the CPUs of a claim."""
        self._taken.pop(ref.uid, None)
        self._notify()

    async def background(self, client: Client, directory: Path | None) -> None:
        """Keep containers without claims off claimed CPUs, if configured."""
        if directory is None or not self.config.shared:
            return
        pool = SharedPool(self.config.shared, self._online, directory / LOCK_FILE, self._root)
        await pool.keep(self._exclusive, lambda: self._changed)

    def _notify(self) -> None:
        """Other CPUs are held by claims than before."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _exclusive(self) -> frozenset[int]:
        return frozenset(cpu for claim in self._taken.values() for given in claim.values() for cpu in given)

    def _cpus_for(self, allocation: ClaimedDevice, mine: dict[str, frozenset[int]]) -> frozenset[int]:
        key = f"{allocation.device}/{allocation.share_id}"
        if mine.get(key):
            return mine[key]
        if self.config.mode == "individual":
            mine[key] = frozenset(cpu.id for cpu in self._cpus if _single_name(cpu) == allocation.device)
            return mine[key]
        cpus = self._groups().get(allocation.device)
        if cpus is None:
            raise DriverError(f"there is no group {allocation.device}")
        wanted = allocation.consumed.get(CAPACITY, Quantity(len(cpus)))
        # The scheduler counts CPUs of a group by number; which of them are free is known here alone.
        chosen = choose(cpus, wanted.value(), self._exclusive().union(*mine.values()))
        if chosen is None:
            raise DriverError(f"{allocation.device} has fewer than {wanted} CPUs that no claim holds")
        mine[key] = chosen
        return chosen

    def _groups(self) -> dict[str, list[Cpu]]:
        grouping = self.config.group_by
        groups: dict[str, list[Cpu]] = {}
        for cpu in self._cpus:
            number = {"socket": cpu.socket, "numanode": cpu.numa_node, "cache": cpu.cache, "core": cpu.core}
            suffix = "" if grouping == "machine" else f"{number[grouping]:03}"
            groups.setdefault(f"{_NAMES[grouping]}{suffix}", []).append(cpu)
        return groups

    def _group(self, name: str, cpus: Sequence[Cpu]) -> Device:
        grouping, first = self.config.group_by, cpus[0]
        attributes: dict[str, AttributeValue] = {"dra.cpu/numCPUs": len(cpus), "dra.cpu/smtEnabled": self._smt}
        attributes |= self._near(cpus)
        if grouping != "machine":
            attributes["dra.cpu/socketID"] = first.socket
        if grouping in ("numanode", "cache", "core"):
            attributes.update(_numa(first))
        if grouping in ("cache", "core"):
            attributes["dra.cpu/cacheL3ID"] = first.cache
        if grouping == "core":
            attributes |= {"dra.cpu/coreID": first.core_id, "dra.cpu/coreType": first.kind}
        return Device(
            name,
            attributes=attributes,
            capacity={CAPACITY: Quantity(len(cpus))},
            multiple_allocations=True,
            node_resources=self._node_resources(NodeAllocatableMapping(CAPACITY, Quantity("1"))),
        )

    def _single(self, cpu: Cpu) -> Device:
        return Device(
            _single_name(cpu),
            attributes={
                "dra.cpu/cpuID": cpu.id,
                "dra.cpu/coreID": cpu.core_id,
                "dra.cpu/coreType": cpu.kind,
                "dra.cpu/cacheL3ID": cpu.cache,
                "dra.cpu/socketID": cpu.socket,
                "dra.cpu/smtEnabled": self._smt,
                **_numa(cpu),
                **self._near([cpu]),
            },
            node_resources=self._node_resources(NodeAllocatableMapping(device_multiplier=Quantity("1"))),
        )

    def _near(self, cpus: Sequence[Cpu]) -> dict[str, AttributeValue]:
        """Return the PCIe roots that are near any of these CPUs, as an attribute; {} if there are none."""
        mine = {cpu.id for cpu in cpus}
        near = [name for name, local in self._roots.items() if local & mine]
        return {"resource.kubernetes.io/pcieRoot": near} if near else {}

    @property
    def _smt(self) -> bool:
        return any(cpu.threads > 1 for cpu in self._cpus)

    def _node_resources(self, mapping: NodeAllocatableMapping) -> dict[str, NodeAllocatableResource]:
        return {"cpu": NodeAllocatableResource(mapping=mapping)} if self.config.node_resources else {}


def _single_name(cpu: Cpu) -> str:
    return f"cpudev{cpu.id:03}"


def _numa(cpu: Cpu) -> dict[str, AttributeValue]:
    """Return the standard attribute of a CPU's NUMA node, and its older names for drivers that match those."""
    return dict.fromkeys(("resource.kubernetes.io/numaNode", "dra.cpu/numaNodeID", "dra.net/numaNode"), cpu.numa_node)


Grouping = Literal["machine", "socket", "numanode", "cache", "core"]


class CpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as a whole; the fields are named as in the Kubernetes project's driver."""

    driver: str = "dra.cpu"
    mode: Literal["grouped", "individual"] = msgspec.field(name="cpuDeviceMode", default="grouped")
    group_by: Grouping = msgspec.field(name="groupBy", default="numanode")
    reserved: str = msgspec.field(name="reservedCPUs", default="")
    node_resources: bool = msgspec.field(name="publishNodeAllocatableResourceMapping", default=False)
    """True if the scheduler counts claimed CPUs with the node's (gate ``DRANodeAllocatableResources``)."""

    pcie_roots: bool = msgspec.field(name="exposePCIeRoots", default=False)
    """True if devices publish nearby PCIe roots, for claims that combine CPUs with a GPU or a card."""
    shared: tuple[str, ...] = msgspec.field(name="sharedCgroups", default=())
    """A field of our own: where containers are that must keep off claimed CPUs; none: they are left alone."""

    def __post_init__(self) -> None:
        try:
            parse_cpus(self.reserved)
        except ValueError as error:
            raise ValueError(f"reservedCPUs {self.reserved!r} must be a list of CPUs as 0-1,8") from error
        for group in self.shared:
            if not group or group.startswith("/") or ".." in group.split("/"):
                raise ValueError(f"sharedCgroups {group!r} must be a cgroup below the root, as kubepods")


def choose(cpus: Sequence[Cpu], count: int, taken: Collection[int]) -> frozenset[int] | None:
    """``count`` free CPUs of the group; None if there are fewer.

    Whole cores are given out as long as they fit, those of the cache with most free CPUs first, so that a claim shares
    its caches with few others; what remains comes from cores that are in use already, else from the next free one.
    """
    free = [cpu for cpu in cpus if cpu.id not in taken]
    if len(free) < count:
        return None
    by_cache: dict[int, int] = {}
    by_core: dict[int, list[Cpu]] = {}
    for cpu in free:
        by_cache[cpu.cache] = by_cache.get(cpu.cache, 0) + 1
        by_core.setdefault(cpu.core, []).append(cpu)
    whole = sorted(
        (threads for threads in by_core.values() if len(threads) == threads[0].threads),
        key=lambda threads: (-by_cache[threads[0].cache], threads[0].cache, threads[0].id),
    )
    chosen: list[int] = []
    for threads in whole:
        if len(threads) <= count - len(chosen):
            chosen += [cpu.id for cpu in threads]
    rest = sorted((cpu for cpu in free if cpu.id not in chosen), key=lambda cpu: (len(by_core[cpu.core]), cpu.id))
    return frozenset((*chosen, *(cpu.id for cpu in rest[: count - len(chosen)])))


# Keeps containers without claims off CPUs that claims hold: they share what is left, by the cpusets of their cgroups.
#
# The Kubernetes project's driver does so through NRI; here the driver writes the cpusets itself, below the cgroups that
# its configuration names. A cgroup whose CPUs are all held by claims belongs to a container with a claim: the hook has
# written them (`cathedra.drivers.hooks.cpuset`), under the same lock, so that none is taken for another.

LOCK_FILE: Final = "cpuset.lock"
"""The lock's name in the driver's directory."""
_CPUS: Final = "cpuset.cpus"
_LOG: Final = logging.getLogger(__name__)


class SharedPool:
    """The CPUs of this machine that containers without claims run on."""

    def __init__(self, groups: Sequence[str], cpus: frozenset[int], lock: Path, root: Path = Path("/")) -> None:
        """``groups``: cgroups below which containers are, as ``kubepods``; ``cpus``: all of the machine."""
        mounted = root / "sys/fs/cgroup"
        hierarchy = mounted / "cpuset" if (mounted / "cpuset").is_dir() else mounted
        self._groups = [hierarchy / group for group in groups]
        self._cpus = cpus
        self._lock = lock

    async def keep(self, exclusive: Callable[[], frozenset[int]], changed: Callable[[], asyncio.Event]) -> None:
        """Keep the containers that there are, and those that come, off the CPUs that claims hold, until cancelled.

        Raises:
            OSError: the kernel has no inotify to spare.
        """
        watched = Inotify()
        appeared = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(watched.fd, appeared.set)
        try:
            while True:
                # Taken before the sweep: a change during it must cause another one.
                event = changed()
                for folder in self._folders():
                    watched.watch(folder)
                # What came before its parent was watched is found by this sweep, which comes after.
                self.sweep(exclusive())
                await _either(appeared, event)
                appeared.clear()
                for _ in watched.read():
                    pass  # the sweep finds the containers itself
        finally:
            loop.remove_reader(watched.fd)
            watched.close()

    def sweep(self, exclusive: frozenset[int]) -> None:
        """Give every container without a claim the CPUs that no claim holds."""
        shared = self._cpus - exclusive
        if not shared:
            _LOG.warning("claims hold every CPU: containers without claims are not kept off them")
            return
        # The hook takes the same lock: between its write and this one a container could lose its CPUs.
        with self._locked():
            for folder in self._containers():
                self._settle(folder / _CPUS, shared, exclusive)

    def _settle(self, file: Path, shared: frozenset[int], exclusive: frozenset[int]) -> None:
        try:
            cpus = parse_cpus(file.read_text())
            # A container whose CPUs are all claimed was pinned by the hook and must keep them.
            if cpus != shared and not (cpus and cpus <= exclusive):
                file.write_text(format_cpus(shared))
        except FileNotFoundError:
            return  # the container has ended
        except (OSError, ValueError) as error:
            _LOG.warning("%s: %s", file, error)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _folders(self) -> Iterator[Path]:
        for group in self._groups:
            for place, _, _ in os.walk(group):
                yield Path(place)

    def _containers(self) -> Iterator[Path]:
        """Cgroups without any below them, the groups themselves excepted."""
        for group in self._groups:
            for place, below, _ in os.walk(group):
                if not below and Path(place) != group:
                    yield Path(place)


async def _either(first: asyncio.Event, second: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in (first, second)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


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
    """Return the PCIe roots of the machine, as ``pci0000:00``, and the CPUs that each is near."""
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
    """Return the ID of the third-level cache, else of the last one; without an ID, its first CPU."""
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
    """Return a number of sysfs; ``default`` if it is missing or negative, which means that it is unknown."""
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        return default
    return number if number >= 0 else default
