"""Ending a pod's containers: hooks, signals, grace, and in the end the hammer.

spec: node.md, section 17.9, steps 2 to 4. Regular containers end together, sidecars after them in reverse order.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Final

from cathedra.api.core.core_v1 import LifecycleHandler, Pod, Probe
from cathedra.clock import Clock
from cathedra.node.containers.probes import ProbeTarget, run_action
from cathedra.node.containers.records import ContainerRecord, of_kind
from cathedra.node.runtime.runtime import Runtime

__all__ = ["GracePeriod", "Terminator", "run_hook"]

_LEAST_AFTER_HOOK: Final = 2.0
_AFTER_KILL: Final = 30.0


class GracePeriod:
    """How long a pod may still take; it can become shorter while it runs. Seconds of the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._changed = asyncio.Event()

    def limit(self, seconds: float) -> None:
        """It ends in ``seconds`` at the latest."""
        until = self._clock.monotonic() + max(seconds, 0.0)
        if self._until is None or until < self._until:
            self._until = until
            self._changed.set()

    @property
    def left(self) -> float:
        """What is left of it."""
        return max(0.0, (self._until or 0.0) - self._clock.monotonic())

    async def over(self) -> None:
        """Wait for its end."""
        while (left := self.left) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return


class Terminator:
    """Ends the containers of one pod. ``ended`` must return an event that is set whenever a container has ended."""

    def __init__(
        self,
        pod: Pod,
        runtime: Runtime,
        clock: Clock,
        *,
        address: str,
        ended: Callable[[], asyncio.Event],
        tell: Callable[[ContainerRecord], None],
    ) -> None:
        self._pod = pod
        self._runtime = runtime
        self._clock = clock
        self._address = address
        self._ended = ended
        self._tell = tell

    async def end(self, records: Sequence[ContainerRecord], grace: GracePeriod) -> None:
        """End everything that runs; on return nothing does."""
        sidecars = [record for record in of_kind(records, init=True) if record.sidecar]
        others = [record for record in records if record not in sidecars]
        async with asyncio.TaskGroup() as group:
            for record in others:
                group.create_task(self._end_one(record, grace))
        for record in reversed(sidecars):
            await self._end_one(record, grace)

    async def _end_one(self, record: ContainerRecord, grace: GracePeriod) -> None:
        current = record.current
        if current is None or not current.running:
            return
        record.stopping = True
        self._tell(record)
        lifecycle = record.container.lifecycle
        if lifecycle is not None and lifecycle.pre_stop is not None and grace.left > 0:
            target = ProbeTarget(self._runtime, current.id, record.container, self._address)
            hook = asyncio.ensure_future(run_hook(lifecycle.pre_stop, target, self._clock))
            await self._first_of(record, grace, hook)
            if grace.left < _LEAST_AFTER_HOOK:
                grace = GracePeriod(self._clock)
                grace.limit(_LEAST_AFTER_HOOK)
        if record.running and grace.left > 0:
            await self._runtime.signal(current.id, _stop_signal(record))
            await self._first_of(record, grace, None)
        while record.running:
            await self._runtime.signal(current.id, signal.SIGKILL)
            await self._wait_for_end(record, _AFTER_KILL)

    async def _first_of(
        self, record: ContainerRecord, grace: GracePeriod, hook: asyncio.Future[tuple[bool, str]] | None
    ) -> None:
        """Wait for the container's end, the end of the grace period, or the hook, whatever comes first."""
        waits: set[asyncio.Future[object]] = {
            asyncio.ensure_future(self._wait_for_end(record, None)),
            asyncio.ensure_future(grace.over()),
        }
        if hook is not None:
            waits.add(asyncio.ensure_future(_outcome(hook)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (*waits, *((hook,) if hook is not None else ())):
                waiting.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _wait_for_end(self, record: ContainerRecord, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while record.running:
                    await self._ended().wait()
        except TimeoutError:
            return


async def _outcome(hook: asyncio.Future[tuple[bool, str]]) -> object:
    return await hook


async def run_hook(hook: LifecycleHandler, target: ProbeTarget, clock: Clock) -> tuple[bool, str]:
    """Run a lifecycle hook; whether it went well, and what it said."""
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
        return signal.SIGTERM
