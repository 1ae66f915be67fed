"""The probes of a pod's running containers (docs/spec/node.md §17.8). What follows from them is the runner's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from cathedra.clock import Clock
from cathedra.node.concurrency import BlockTasks
from cathedra.node.containers.probes import ProbeTarget, run_probe
from cathedra.node.containers.records import ContainerRecord

__all__ = ["ProbeKind", "ProbeMonitor", "ReportProbe"]


class ProbeKind(Enum):
    """Which of a container's probes, as events call it."""

    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


class ReportProbe(Protocol):
    """Takes the verdict of a probe: the container's name, which probe, whether it is good, and the output."""

    def __call__(self, name: str, kind: ProbeKind, *, good: bool, output: str) -> None: ...


class ProbeMonitor:
    """Runs the probes of one pod's containers among ``tasks``, one task for each container."""

    def __init__(self, clock: Clock, tasks: BlockTasks, report: ReportProbe) -> None:
        self._clock = clock
        self._tasks = tasks
        self._report = report
        self._probing: dict[str, asyncio.Task[None]] = {}

    def begin(self, record: ContainerRecord, target: ProbeTarget) -> None:
        """Probe a container that has been started, if it has probes; probes of an earlier run end."""
        container = record.container
        self.cancel(record.name)
        if any((container.startup_probe, container.readiness_probe, container.liveness_probe)):
            self._probing[record.name] = self._tasks.start(self._probe(record, target))

    def cancel(self, name: str) -> None:
        """Stop probing a container: it has ended."""
        task = self._probing.pop(name, None)
        if task is not None:
            task.cancel()

    async def _probe(self, record: ContainerRecord, target: ProbeTarget) -> None:
        container = record.container

        def reporter(kind: ProbeKind) -> Callable[[bool, str], None]:
            return lambda good, output: self._report(record.name, kind, good=good, output=output)

        if container.startup_probe is not None:
            startup = reporter(ProbeKind.STARTUP)
            await run_probe(container.startup_probe, target, self._clock, startup, once=True)
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                readiness = reporter(ProbeKind.READINESS)
                group.create_task(run_probe(container.readiness_probe, target, self._clock, readiness))
            if container.liveness_probe is not None:
                liveness = reporter(ProbeKind.LIVENESS)
                group.create_task(run_probe(container.liveness_probe, target, self._clock, liveness))
