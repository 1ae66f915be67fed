"""Runs of workloads, each in a process of its own, so that none inherits the heap of another."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.scheduler.figures import Throughput, percentile, sampled
from benchmarks.scheduler.running import Bound, clear, furnish, namespace_gone, run
from benchmarks.scheduler.staging import Arrangement, Stage, cluster, stage
from benchmarks.scheduler.workloads import WORKLOADS, Shape, Workload
from cathedra.client.resources import NAMESPACES
from cathedra.clock import SystemClock
from cathedra.cluster.parts.gctuning import collected_by_memory, suspend_collection
from cathedra.cluster.process.signals import switch_soon

__all__ = ["alone", "clear_namespace", "measure", "rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

PROCESSOR_GOAL: Final = 1.2
_APART: Final = [one for one in Arrangement if one not in (Arrangement.ONE, Arrangement.ETCD)]
SAMPLES: Final = 3
"""Minimum number of whole seconds for percentiles of seconds."""


def rows(names: Sequence[str] = (), against: str = "") -> Iterator[Row]:
    """Every workload's figures, or those of the ones whose name contains one of ``names``.

    With a kubeconfig in ``against``, on that cluster; else in one process, and some also with the parts apart.
    """
    for workload in WORKLOADS:
        if names and not any(name in workload.name for name in names):
            continue
        if against:
            found = alone(workload, against=against)
            yield workload.name, found.per_second, "pods/s", workload.kubernetes, workload.goal
            yield from _seconds(workload.name, found)
            continue
        yield from _one_process(workload)
        for arrangement in _APART if workload.apart else ():
            found = alone(workload, arrangement)
            yield f"{workload.name}, {arrangement.value}", found.per_second, "pods/s", workload.kubernetes, None
            yield f"{workload.name}, {arrangement.value}, processor time", found.processor, "ms/pod", None, None


def alone(workload: Workload, arrangement: Arrangement = Arrangement.ONE, against: str = "") -> Throughput:
    """Run one workload in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, workload, arrangement, against).result()


def measure(workload: Workload, arrangement: Arrangement = Arrangement.ONE, against: str = "") -> Throughput:
    """Run one workload here: on a control plane so arranged, or against the cluster of a kubeconfig."""
    return uvloop.run(_measure(workload, arrangement, against))


async def _measure(workload: Workload, arrangement: Arrangement, against: str) -> Throughput:
    suspend_collection()
    switch_soon()
    async with _foreign(against, workload) if against else stage(arrangement) as found:
        await furnish(found.client, workload)
        bound = Bound(found.informers)
        async with collected_by_memory(SystemClock()):
            began, spent = time.monotonic(), found.usage.processor()
            async with sampled(lambda: bound.total, found.usage) as samples:
                pods = await run(found.client, workload, bound)
            took, used = time.monotonic() - began, found.usage.processor() - spent
        return Throughput(
            pods / took,
            used / pods * 1000,
            found.usage.memory(),
            tuple(samples.seconds),
            tuple(samples.resident),
            tuple(found.attempts),
        )


async def clear_namespace(kubeconfig: Path, name: str) -> None:
    """Delete a namespace of a cluster that runs already, and wait until it has gone."""
    async with cluster(kubeconfig) as found:
        await found.client.resource(NAMESPACES).delete(name)
        await namespace_gone(found.client, name)


@asynccontextmanager
async def _foreign(path: str, workload: Workload) -> AsyncIterator[Stage]:
    """A cluster that runs already; what was made in it is taken away again."""
    async with cluster(Path(path)) as found:
        try:
            yield found
        finally:
            await clear(found.client, workload)


def _one_process(workload: Workload) -> Iterator[Row]:
    found = alone(workload)
    goal = PROCESSOR_GOAL if not workload.steady and workload.shape is Shape.BASIC else None
    yield workload.name, found.per_second, "pods/s", workload.kubernetes, workload.goal
    yield from _seconds(workload.name, found)
    for share in (50, 90, 99):
        yield f"{workload.name}, attempts, Perc{share}", percentile(found.attempts, share), "ms", None, None
    yield f"{workload.name}, processor time", found.processor, "ms/pod", None, goal
    yield f"{workload.name}, memory", found.memory, "MiB", None, None


def _seconds(name: str, found: Throughput) -> Iterator[Row]:
    if len(found.seconds) < SAMPLES:
        return
    for share in (50, 90, 99):
        yield f"{name}, Perc{share}", percentile(found.seconds, share), "pods/s", None, None
