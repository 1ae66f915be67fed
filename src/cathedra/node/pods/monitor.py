"""Watching a pod's running containers with their probes, and acting on what is found (spec: node.md, section 17.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from cathedra.node.containers.probes import ProbeTarget, run_probe
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.podstate import PodState

__all__ = ["ProbeMonitor", "Tell"]


class Tell(Protocol):
    """Writes an event about a container."""

    def __call__(
        self, record: ContainerRecord, type_: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None: ...


class ProbeMonitor:
    """The probes of one pod. ``kill`` ends a container that has failed one, for the reason given."""

    def __init__(
        self,
        state: PodState,
        context: PodContext,
        tell: Tell,
        kill: Callable[[ContainerRecord, str, float], Awaitable[None]],
    ) -> None:
        self._state = state
        self._context = context
        self._tell = tell
        self._kill = kill
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._killing: set[asyncio.Task[None]] = set()

    def begin(self, record: ContainerRecord) -> None:
        """A container has started: ask it from now on, if it is to be asked."""
        container = record.container
        record.started = container.startup_probe is None
        record.ready = container.readiness_probe is None
        probes = (container.startup_probe, container.readiness_probe, container.liveness_probe)
        if record.running and any(probe is not None for probe in probes):
            self.cancel(record)
            self._probing[record.name] = asyncio.ensure_future(self._probe(record))

    def cancel(self, record: ContainerRecord) -> None:
        """The container has ended, or is being ended: nobody is interested in its answers any more."""
        task = self._probing.pop(record.name, None)
        if task is not None:
            task.cancel()
            self._killing.add(task)
            task.add_done_callback(self._killing.discard)

    async def stop(self) -> None:
        """Ask nothing and kill nothing any more."""
        tasks = (*self._probing.values(), *self._killing)
        self._probing.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def target(self, record: ContainerRecord) -> ProbeTarget:
        """The container as probes and hooks reach it; it must have been started."""
        assert record.current is not None
        return ProbeTarget(self._context.runtime, record.current.id, record.container, self._context.config.address)

    async def _probe(self, record: ContainerRecord) -> None:
        container = record.container
        target, clock = self.target(record), self._context.clock

        def started(good: bool, said: str) -> None:
            record.started = record.started or good
            if not good:
                self._unhealthy(record, "Startup", said)
            self._state.changed.set()

        def ready(good: bool, said: str) -> None:
            if record.ready != good:
                record.ready = good
                self._state.changed.set()
            if not good:
                self._complain(record, "Readiness", said)

        def alive(good: bool, said: str) -> None:
            if not good:
                self._unhealthy(record, "Liveness", said)

        if container.startup_probe is not None:
            await run_probe(container.startup_probe, target, clock, started, once=True)
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(run_probe(container.readiness_probe, target, clock, ready))
            if container.liveness_probe is not None:
                group.create_task(run_probe(container.liveness_probe, target, clock, alive))

    def _complain(self, record: ContainerRecord, which: str, said: str) -> bool:
        if not record.running or record.stopping:
            return False
        self._tell(record, "Warning", "Unhealthy", f"{which} probe failed: {said}")
        return True

    def _unhealthy(self, record: ContainerRecord, which: str, said: str) -> None:
        if not self._complain(record, which, said):
            return
        why = f"Container {record.name} failed {which.lower()} probe, will be restarted"
        probe = record.container.startup_probe if which == "Startup" else record.container.liveness_probe
        grace = probe.termination_grace_period_seconds if probe is not None else None
        seconds = self._state.own_grace_seconds if grace is None else grace
        task: asyncio.Task[None] = asyncio.ensure_future(self._end(record, why, seconds))
        self._killing.add(task)
        task.add_done_callback(self._killing.discard)

    async def _end(self, record: ContainerRecord, why: str, seconds: float) -> None:
        await self._kill(record, why, seconds)
