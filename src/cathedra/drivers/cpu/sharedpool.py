"""Keeps containers without claims off CPUs that claims hold: they share what is left, by the cpusets of their cgroups.

The Kubernetes project's driver does so through NRI; here the driver writes the cpusets itself, below the cgroups that
its configuration names. A cgroup whose CPUs are all held by claims belongs to a container with a claim: the hook has
written them (`cathedra.drivers.hooks.cpuset`), under the same lock, so that none is taken for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from cathedra.drivers.hooks.cpuset import format_cpus, parse_cpus
from cathedra.files.inotify import Inotify

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
                    pass  # the sweep looks for itself
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
