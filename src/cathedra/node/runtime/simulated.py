"""Simulated containers: they run for a configured time of the clock and start no process.

For simulations and tests: thousands of nodes fit into one process, and an hour of virtual time takes milliseconds. A
container's behaviour comes from a `Behaviour`, by default from annotations of its pod.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from cathedra.clock import Clock
from cathedra.node.runtime.command import run_to_end
from cathedra.node.runtime.runtime import (
    LOST_MESSAGE,
    LOST_REASON,
    STDOUT,
    ContainerRun,
    ContainerSpec,
    ContainerUsage,
    ExecProcess,
    ResourceLimits,
    RuntimeFailure,
)

RUN_SECONDS: Final = "simulated.cathedra.dev/run-seconds"
"""Annotation: seconds that each container of the pod runs; without it, until it is stopped."""
EXIT_CODE: Final = "simulated.cathedra.dev/exit-code"
"""Annotation: the exit code."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_SHARES: Final = 1024
"""CPU shares of one processor."""
_NANOSECONDS: Final = 10**9
_CODE: Final = re.compile(r"[0-9]{1,3}", re.ASCII)


class Act(msgspec.Struct, frozen=True):
    """Behaviour of a simulated container; ``seconds`` None: run until stopped."""

    seconds: float | None = None
    exit_code: int = 0
    stop_seconds: float = 0.0
    """Seconds from the first SIGTERM to the end; 0: the signal kills it."""


def by_annotations(spec: ContainerSpec) -> Act:
    """Return the behaviour that the pod's annotations describe.

    Raises:
        RuntimeFailure: a value is no valid number.
    """
    seconds, code = spec.annotations.get(RUN_SECONDS), spec.annotations.get(EXIT_CODE, "0")
    if seconds is not None and _SECONDS.fullmatch(seconds) is None:
        raise RuntimeFailure("CreateContainerConfigError", f'annotation {RUN_SECONDS}: "{seconds}" is not in seconds')
    if _CODE.fullmatch(code) is None or int(code) > 255:
        raise RuntimeFailure("CreateContainerConfigError", f'annotation {EXIT_CODE}: "{code}" is not between 0 and 255')
    return Act(float(seconds) if seconds is not None else None, int(code))


class _SimulatedContainer(msgspec.Struct):
    spec: ContainerSpec
    act: Act
    state: ContainerRun
    timer: asyncio.TimerHandle | None = None


class SimulatedRuntime:
    """A runtime without processes. One object may serve one node; nothing outlives it."""

    name = "simulated"
    version = "1"
    images = None
    sandboxes = None
    cgroup = "/simulated"

    def __init__(
        self,
        clock: Clock,
        *,
        behaviour: Callable[[ContainerSpec], Act] = by_annotations,
        start_seconds: float = 0.0,
    ) -> None:
        self._clock = clock
        self._behaviour = behaviour
        self._start_seconds = start_seconds
        self._containers: dict[str, _SimulatedContainer] = {}
        self._on_exit: Callable[[ContainerRun], None] = lambda _: None

    @property
    def specs(self) -> Mapping[str, ContainerSpec]:
        """Specifications of all containers that were not removed, by ID, for tests."""
        return {name: container.spec for name, container in self._containers.items()}

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Begin; answers what an earlier agent with this very object left."""
        self._on_exit = on_exit
        return tuple(container.state for container in self._containers.values())

    async def supervise(self) -> None:
        """Wait until cancelled: what holds these containers is this object."""
        await asyncio.get_running_loop().create_future()

    async def status(self) -> tuple[str, ...]:
        """Nothing keeps it from running pods."""
        return ()

    def lose_shim(self) -> None:
        """End all containers as the loss of a real runtime's container shim does."""
        for container in tuple(self._containers.values()):
            # A container that has ended keeps its first end.
            if not container.state.running:
                continue
            if container.timer is not None:
                container.timer.cancel()
            container.state = replace(
                container.state,
                finished_at=self._clock.now(),
                exit_code=137,
                reason=LOST_REASON,
                message=LOST_MESSAGE,
            )
            self._on_exit(container.state)

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Run the container for the time of its act.

        Raises:
            RuntimeFailure: a container with that ID runs already, or its act is invalid.
        """
        if spec.id in self._containers:
            raise RuntimeFailure("CreateContainerError", f"container {spec.id} exists")
        if self._start_seconds:
            await self._clock.sleep(self._start_seconds)
        act = self._behaviour(spec)
        state = ContainerRun(spec.id, spec.pod, spec.name, spec.attempt, self._clock.now())
        container = _SimulatedContainer(spec, act, state)
        self._containers[spec.id] = container
        if act.seconds is not None:
            self._end_after(container, act.seconds, act.exit_code, 0)
        return state

    def _end_after(self, container: _SimulatedContainer, seconds: float, exit_code: int, signal: int) -> None:
        loop = asyncio.get_running_loop()
        # A timer of the loop instead of a task: thousands of containers run at once, and virtual time advances by
        # timers.
        container.timer = loop.call_later(seconds, self._end, container, exit_code, signal)

    def _end(self, container: _SimulatedContainer, exit_code: int, signal: int) -> None:
        if not container.state.running:
            return
        if container.timer is not None:
            container.timer.cancel()
        container.state = replace(
            container.state,
            finished_at=self._clock.now(),
            exit_code=exit_code,
            signal=signal,
            reason="Completed" if exit_code == 0 else "Error",
        )
        self._on_exit(container.state)

    async def update(self, container_id: str, limits: ResourceLimits) -> None:
        """Replace the limits in the spec of a container.

        Raises:
            RuntimeFailure: the container does not run.
        """
        container = self._running(container_id)
        container.spec = replace(container.spec, limits=limits)

    def _running(self, container_id: str) -> _SimulatedContainer:
        container = self._containers.get(container_id)
        if container is None or not container.state.running:
            raise RuntimeFailure("NotFound", f"container {container_id} is not running")
        return container

    async def signal(self, container_id: str, number: int) -> None:
        """Programs that take time to stop end with code 0 after a signal; others die of it, and all of SIGKILL."""
        container = self._containers.get(container_id)
        if container is None or not container.state.running:
            return
        if number == signal.SIGKILL or container.act.stop_seconds <= 0:
            self._end(container, 128 + number, number)
        else:
            if container.timer is not None:
                container.timer.cancel()
            self._end_after(container, container.act.stop_seconds, 0, 0)

    async def remove(self, container_id: str) -> None:
        """Remove the container, and cancel its timer."""
        container = self._containers.pop(container_id, None)
        if container is not None and container.timer is not None:
            container.timer.cancel()

    async def exec(
        self, container_id: str, argv: tuple[str, ...], *, tty: bool = False, stdin: bool = False
    ) -> ExecProcess:
        """Return a process that prints its command line.

        Raises:
            RuntimeFailure: the container does not run.
        """
        self._running(container_id)
        return _SimulatedExec(f"simulated: {' '.join(argv)}\n".encode())

    async def exec_sync(self, container_id: str, argv: tuple[str, ...], seconds: float) -> tuple[int, bytes]:
        """Run a command to its end; its exit code, and the beginning of what it wrote.

        Raises:
            RuntimeFailure: the container does not run, or there is nothing left to start a command with.
            TimeoutError: the command had not ended after ``seconds``; it has been ended.
        """
        async with asyncio.timeout(seconds):
            return await run_to_end(await self.exec(container_id, argv))

    async def attach(self, container_id: str) -> ExecProcess:
        """Return a process without input and output.

        Raises:
            RuntimeFailure: the container does not run.
        """
        self._running(container_id)
        return _SimulatedExec(b"")

    async def processes(self, container_ids: Collection[str]) -> frozenset[int]:
        """Return no processes: none exist."""
        return frozenset()

    async def usage(self) -> Mapping[str, ContainerUsage]:
        """Return the requested processor time, and half of the memory limit, of each container."""
        now = self._clock.now()
        return {
            name: _used(container.spec, now - container.state.started_at)
            for name, container in self._containers.items()
            if container.state.running
        }

    async def close(self, *, stop_containers: bool) -> None:
        """End; stopped containers are forgotten."""
        # First: removing containers must report no ends to an agent that is going away.
        self._on_exit = lambda _: None
        if stop_containers:
            for container_id in tuple(self._containers):
                await self.remove(container_id)


class _SimulatedExec:
    def __init__(self, text: bytes) -> None:
        self._text = text

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        yield STDOUT, self._text

    async def write(self, data: bytes) -> None:
        return

    async def close_input(self) -> None:
        return

    def resize(self, width: int, height: int) -> None:
        return

    async def wait(self) -> int:
        return 0

    async def close(self) -> None:
        return


def _used(spec: ContainerSpec, seconds: float) -> ContainerUsage:
    shares = spec.limits.cpu_shares or 0
    return ContainerUsage(int(seconds * shares * _NANOSECONDS / _SHARES), (spec.limits.memory or 0) // 2)
