"""Ending a pod's containers: hook, stop signal, grace period, SIGKILL (docs/spec/node.md §17.9, steps 2 to 4).

Regular containers end together, sidecars after them in reverse order. What a container leaves behind, its termination
message, is read here too (docs/spec/node.md §17.7).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from cathedra.api.core.core_v1 import Container, LifecycleHandler, Probe
from cathedra.clock import Clock
from cathedra.node.concurrency import Event, first_of
from cathedra.node.containers.probes import ProbeTarget, run_action
from cathedra.node.containers.records import ContainerRecord, ContainerTable
from cathedra.node.runtime.runtime import ContainerRun, Runtime
from cathedra.node.setup.directories import PodDirectories

_LEAST_AFTER_HOOK: Final = 2.0
_AFTER_KILL: Final = 30.0


class GracePeriod:
    """Remaining time for a pod to end, in seconds of the monotonic clock. It can be shortened while it runs."""

    __slots__ = ("_changed", "_clock", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._changed = Event()

    def limit(self, seconds: float) -> None:
        """It ends in ``seconds`` at the latest."""
        until = self._clock.monotonic() + max(seconds, 0.0)
        # Only shortened: a second deletion with a longer period must not keep the pod alive.
        if self._until is None or until < self._until:
            self._until = until
            self._changed.set()

    @property
    def left(self) -> float:
        """Return the remaining seconds."""
        return max(0.0, (self._until or 0.0) - self._clock.monotonic())

    async def over(self) -> None:
        """Wait for its end."""
        while (left := self.left) > 0:
            # Cleared before the wait, so that a limit that is set during it ends the wait and the rest is computed
            # anew.
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return


class Terminator:
    """Ends containers of one pod; ``stopping`` is called with the name of each that is about to be ended."""

    def __init__(
        self,
        containers: ContainerTable,
        runtime: Runtime,
        clock: Clock,
        *,
        address: str,
        stopping: Callable[[str], None],
    ) -> None:
        self._containers = containers
        self._runtime = runtime
        self._clock = clock
        self._address = address
        self._stopping = stopping

    async def end(self, names: Collection[str], grace: GracePeriod) -> None:
        """End those of these containers that run; on return none does."""
        records = [record for record in self._containers.all if record.name in names]
        sidecars = [record for record in records if record.sidecar]
        async with asyncio.TaskGroup() as group:
            for record in records:
                if not record.sidecar:
                    group.create_task(self._end_one(record.name, grace))
        # One after the other: a sidecar may use one that was started before it, as a log collector uses a proxy.
        for record in reversed(sidecars):
            await self._end_one(record.name, grace)

    async def _end_one(self, name: str, grace: GracePeriod) -> None:
        record = self._containers[name]
        current = record.current
        if current is None or not current.running:
            return
        self._stopping(name)
        grace = await self._run_pre_stop(record, grace)
        if self._containers[name].running and grace.left > 0:
            await self._runtime.signal(current.id, _stop_signal(record))
            await first_of(self._containers.until_ended(name), grace.over())
        # Repeated, because a signal may be lost with the runtime's connection; nothing survives SIGKILL but a process
        # in the kernel.
        while self._containers[name].running:
            await self._runtime.signal(current.id, signal.SIGKILL)
            await first_of(self._containers.until_ended(name), self._clock.sleep(_AFTER_KILL))

    async def _run_pre_stop(self, record: ContainerRecord, grace: GracePeriod) -> GracePeriod:
        """Run the hook within the grace period; answers what is left for the signal, 2 s at least."""
        lifecycle = record.container.lifecycle
        current = record.current
        if lifecycle is None or lifecycle.pre_stop is None or current is None or grace.left <= 0:
            return grace
        target = ProbeTarget(self._runtime, current.id, record.container, self._address)
        hook = run_hook(lifecycle.pre_stop, target, self._clock)
        await first_of(hook, grace.over(), self._containers.until_ended(record.name))
        if grace.left >= _LEAST_AFTER_HOOK:
            return grace
        # A hook that used up the period leaves two seconds for the signal, as in the kubelet.
        least = GracePeriod(self._clock)
        least.limit(_LEAST_AFTER_HOOK)
        return least


async def run_hook(hook: LifecycleHandler, target: ProbeTarget, clock: Clock) -> tuple[bool, str]:
    """Run a lifecycle hook. Return success, and the output."""
    if hook.sleep is not None:
        await clock.sleep(hook.sleep.seconds)
        return True, ""
    probe = Probe(exec=hook.exec, http_get=hook.http_get, tcp_socket=hook.tcp_socket)
    return await run_action(probe, target, timeout=3600.0)


def _stop_signal(record: ContainerRecord) -> int:
    lifecycle = record.container.lifecycle
    name = lifecycle.stop_signal if lifecycle is not None and lifecycle.stop_signal else "SIGTERM"
    try:
        return signal.Signals[name].value
    except KeyError:
        # A name that this platform does not know must not keep the container from ending.
        return signal.SIGTERM


_MAX_MESSAGE: Final = 4096
_MAX_FROM_LOG: Final = 2048
_MAX_LINES: Final = 80


def with_termination_message(directories: PodDirectories, container: Container, state: ContainerRun) -> ContainerRun:
    """Return ``state`` with the container's termination message: its file, or the end of its log if its policy allows
    that.
    """
    text = _read(directories.termination_log(container.name, state.attempt), _MAX_MESSAGE)
    if not text and container.termination_message_policy == "FallbackToLogsOnError" and state.exit_code:
        text = _log_end(directories.log(container.name, state.attempt))
    return replace(state, message=text) if text else state


def _read(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _log_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4 * _MAX_FROM_LOG))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    texts = [line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3]
    return "\n".join(texts[-_MAX_LINES:])[-_MAX_FROM_LOG:]
