"""Figures of a cluster's processes, measured from outside, and the ones that have grown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import Final

from cathedra.client.events import REMEMBERED

__all__ = ["LIMITS", "Census", "Sample", "grown", "grown_types", "medians", "processes", "sampled", "slope"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one moment at which the cluster is idle."""

    seconds: float
    memory: float
    """Resident memory of all its processes in MiB."""
    descriptors: int
    threads: int
    tasks: int
    store: float
    """Files of the data directory in MiB."""
    files: int
    kinds: Mapping[str, int]
    """Descriptors by kind."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Allowed growth of a figure: a share of its first value, and a constant."""

    share: float
    more: float


LIMITS: Final[Mapping[str, Limit]] = {
    "memory": Limit(0.05, 8.0),
    "descriptors": Limit(0.0, 4.0),
    "threads": Limit(0.0, 2.0),
    "tasks": Limit(0.0, 4.0),
    "store": Limit(0.1, 4.0),
    "files": Limit(0.0, 8.0),
}
"""Growth from the second third of a soak to its last third."""
RECORDER: Final = "cathedra.client.events.EventRecorder"
BOUNDED: Final[Mapping[str, int]] = {
    "cathedra.client.events._Similar": REMEMBERED,
    "cathedra.client.events._Written": 2 * REMEMBERED,
    "cathedra.client.backoff.TokenBucket": REMEMBERED,
}
"""The most objects of a type that one recorder of events keeps, as Kubernetes' recorders do. No soak of an hour fills
the recorders, so these types may grow up to the bound."""
TYPE_SHARE: Final = 0.1
"""Growth of the number of objects of a type that is no leak, as a share of what there was."""


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return a line for each figure that has grown beyond its limit."""
    lines = []
    for name, limit in LIMITS.items():
        before, after = medians(samples, name)
        if after - before > limit.share * before + limit.more:
            named = _named(name, _steady(samples)[0], samples[-1])
            lines.append(f"{name} has grown from {before:,.1f} to {after:,.1f}{named}")
    return lines


def _steady(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the last two thirds. In the first third the history of the time before ends, so memory shrinks."""
    return samples[len(samples) // 3 :]


def medians(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """Return the medians of a figure in the second and the last third of a soak."""
    steady = _steady(samples)
    half = len(steady) // 2
    before, after = (median(getattr(one, name) for one in part) for part in (steady[:half], steady[half:]))
    return before, after


def slope(samples: Sequence[Sample], name: str) -> float:
    """Return the growth of a figure in a second, from the second third on: the median over all pairs of samples (Theil
    and Sen).

    Single peaks, and a step of a few samples, do not move it.
    """
    pairs = [
        (getattr(after, name) - getattr(before, name)) / (after.seconds - before.seconds)
        for before, after in combinations(_steady(samples), 2)
        if after.seconds > before.seconds
    ]
    return median(pairs) if pairs else 0.0


def _named(name: str, before: Sample, after: Sample) -> str:
    if name != "descriptors":
        return ""
    more = Counter(after.kinds)
    more.subtract(before.kinds)
    return ": " + ", ".join(f"{count} more {kind}" for kind, count in more.most_common() if count > 0)


@dataclass(frozen=True, slots=True)
class Census:
    """The number of objects of each type after some rounds."""

    rounds: int
    objects: Mapping[str, int]


def grown_types(censuses: Sequence[Census]) -> list[str]:
    """Return a line for each type of which every round has left an object, between all censuses.

    A bounded cache that fills between two censuses is full before the next one, if the soak is long enough.
    """
    steps = list(pairwise(censuses))
    first, last = censuses[0], censuses[-1]
    leaked = [name for name in last.objects if not _bounded(name, last) and all(_leaks(name, *step) for step in steps)]
    more = {name: last.objects[name] - first.objects.get(name, 0) for name in leaked}
    rounds = last.rounds - first.rounds
    leaked.sort(key=lambda name: -more[name])
    return [f"{more[name]:,} more objects of {name}, {more[name] / rounds:.1f} for each round" for name in leaked]


def _bounded(name: str, census: Census) -> bool:
    """Return True if all objects of the type can be those that recorders of events keep."""
    return census.objects[name] <= BOUNDED.get(name, 0) * census.objects.get(RECORDER, 0)


def _leaks(name: str, before: Census, after: Census) -> bool:
    old = before.objects.get(name, 0)
    more = after.objects.get(name, 0) - old
    return more >= after.rounds - before.rounds and more > TYPE_SHARE * old


def sampled(pid: int, folder: Path, seconds: float, tasks: int) -> Sample:
    """Measure the process, its descendants and its data directory."""
    running = processes(pid)
    kinds = Counter(kind for one in running for kind in _descriptors(one))
    sizes = [size for path in folder.rglob("*") if (size := _size(path)) is not None]
    return Sample(
        seconds,
        sum(_status(one, "VmRSS") for one in running) / 1024,
        kinds.total(),
        sum(_status(one, "Threads") for one in running),
        tasks,
        sum(sizes) / 2**20,
        len(sizes),
        dict(kinds),
    )


def processes(pid: int) -> list[int]:
    """Return the process and its descendants."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def _status(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


def _descriptors(pid: int) -> list[str]:
    kinds = []
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        kinds.append(target if target.startswith("/") else target.partition(":")[0])
    return kinds


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size if path.is_file() else None
    except OSError:
        return None
