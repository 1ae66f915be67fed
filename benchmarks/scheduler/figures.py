"""Figures of a run: pods per second, the scheduler's attempts, processor time, memory."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["Samples", "Throughput", "Usage", "percentile", "sampled"]

SECOND: Final = 1.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rate of bindings, and the resources that they took."""

    per_second: float
    """Average."""
    processor: float
    """Milliseconds of all processes together for each pod, the client's among them."""
    memory: float
    """MiB of all these processes at the end."""
    seconds: Sequence[float] = ()
    """Pods that were bound in each whole second of the run."""
    resident: Sequence[float] = ()
    """MiB after each of these seconds."""
    attempts: Sequence[float] = ()
    """Milliseconds of each of the scheduler's attempts, where it runs in this process."""


def percentile(values: Iterable[float], share: int) -> float:
    """The smallest value that so many percent of the values do not exceed; not a number where there are none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[max(math.ceil(len(ordered) * share / 100) - 1, 0)]


@dataclass(frozen=True)
class Usage:
    """Processor time and memory of this process and of others with their children."""

    others: Sequence[int] = ()
    """Process ids."""

    def processor(self) -> float:
        """Seconds that were used so far."""
        return time.process_time() + sum(_processor(pid) for pid in _families(self.others))

    def memory(self) -> float:
        """MiB that they hold."""
        return _resident(os.getpid()) + sum(_resident(pid) for pid in _families(self.others))


@dataclass
class Samples:
    """Samples that are taken every second."""

    seconds: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)


@asynccontextmanager
async def sampled(total: Callable[[], int], usage: Usage) -> AsyncIterator[Samples]:
    """Collect by how much a total grows in each second, as scheduler_perf does, and the memory."""
    samples = Samples()
    task = asyncio.ensure_future(_sample(total, usage, samples))
    try:
        yield samples
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _sample(total: Callable[[], int], usage: Usage, samples: Samples) -> None:
    seen, at = total(), time.monotonic()
    while True:
        await asyncio.sleep(SECOND)
        now, then = total(), time.monotonic()
        samples.seconds.append((now - seen) / (then - at))
        samples.resident.append(usage.memory())
        seen, at = now, then


def _families(pids: Sequence[int]) -> Iterable[int]:
    waiting, seen = list(pids), []
    while waiting:
        pid = waiting.pop()
        seen.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            waiting.extend(int(child) for child in children.read_text().split())
    return seen


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
