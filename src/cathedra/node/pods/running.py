"""Starting a pod's containers and noting their ends: everything that happens to one container while the pod lives.

Which container to start is up to the plan; here is how, and what follows from it: events, hooks, probes, back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from cathedra.client.objects import reference_to
from cathedra.node.claims.errors import ClaimError
from cathedra.node.containers.records import ContainerRecord, Waiting, will_restart
from cathedra.node.containers.termination import GracePeriod, Terminator, run_hook
from cathedra.node.containers.terminationmessage import with_termination_message
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.monitor import ProbeMonitor
from cathedra.node.pods.podstate import PodState
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, RuntimeFailure
from cathedra.node.setup.environment import container_environment
from cathedra.node.setup.errors import ConfigError
from cathedra.node.setup.launch import container_spec, identity_of
from cathedra.node.setup.references import References

__all__ = ["ContainerRunner"]

_CREATE_RETRY: Final = (10.0, 300.0)


def _silently(_: ContainerRecord) -> None:
    """Whoever ends the container has said so already."""


class ContainerRunner:
    """The containers of one pod."""

    def __init__(self, state: PodState, context: PodContext) -> None:
        self._state = state
        self._context = context
        self._clock = context.clock
        self._ended = asyncio.Event()
        self._early_ends: dict[str, ContainerRun] = {}
        self.monitor = ProbeMonitor(state, context, self.tell, self._kill)

    def tell(self, record: ContainerRecord, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Write an event about a container."""
        kind = "initContainers" if record.init else "ephemeralContainers" if record.ephemeral else "containers"
        field = f"spec.{kind}{{{record.name}}}"
        self._context.recorder.record(reference_to(self._state.pod, field), type_, reason, message)

    # The beginning

    async def start(self, record: ContainerRecord) -> None:
        """Start a container; if that fails, its record says why and when to try again."""
        context = self._context
        attempt = record.attempt + 1 if record.current is not None else record.attempt
        try:
            spec = await self._describe(record, attempt)
        except (ConfigError, ClaimError) as error:
            self._delay(record, "CreateContainerConfigError", str(error))
            return
        self.tell(record, "Normal", "Pulled", f'Container image "{record.container.image}" already present on machine')
        if record.current is not None:
            await context.runtime.remove(record.current.id)
        # From here on the run exists, whatever becomes of the answer: the ID says which run it is.
        context.faults.reach("agent:container-starting")
        try:
            state = await context.runtime.start(spec)
            context.faults.reach("agent:container-started")
        except RuntimeFailure as error:
            self._failed_to_start(record, attempt, spec.id, error)
            return
        if record.current is not None:
            record.previous = record.current
        record.attempt, record.waiting, record.stopping = attempt, None, False
        if self._clock.monotonic() >= record.due and record.backoff and attempt == 0:
            record.backoff = 0.0
        record.current = state
        self.tell(record, "Normal", "Created", f"Created container: {record.name}")
        self.tell(record, "Normal", "Started", f"Started container {record.name}")
        early = self._early_ends.pop(state.id, None)
        if early is not None:
            self._note_end(record, early)
            return
        self.monitor.begin(record)
        await self._run_post_start(record)

    async def _describe(self, record: ContainerRecord, attempt: int) -> ContainerSpec:
        context, state = self._context, self._state
        environment = await container_environment(
            state.pod,
            record.container,
            References(context.client, state.pod.metadata.namespace),
            context.facts,
            inherited=context.inherited_environment.items(),
        )
        return container_spec(
            state.pod,
            record.container,
            attempt=attempt,
            generation=state.generation,
            environment=environment,
            volumes=state.volumes,
            cdi_devices=context.claims.cdi_devices(state.pod, record.container),
            directories=state.directories,
            node=context.facts,
        )

    def _delay(self, record: ContainerRecord, reason: str, message: str) -> None:
        """The container cannot be made now; try again later. This is no run of it."""
        record.waiting = Waiting(reason, message)
        record.backoff = min(max(record.backoff * 2, _CREATE_RETRY[0]), _CREATE_RETRY[1])
        record.due = self._clock.monotonic() + record.backoff
        self.tell(record, "Warning", "Failed", f"Error: {message}")

    def _failed_to_start(self, record: ContainerRecord, attempt: int, run_id: str, error: RuntimeFailure) -> None:
        if error.reason != "RunContainerError":
            self._delay(record, error.reason, error.message)
            return
        self.tell(record, "Warning", "Failed", f"Error: {error.message}")
        now = self._clock.now()
        if record.current is not None:
            record.previous = record.current
        record.attempt = attempt
        failed = ContainerRun(
            run_id,
            identity_of(self._state.pod),
            record.name,
            attempt,
            now,
            finished_at=now,
            exit_code=128,
            reason="StartError",
            message=error.message,
        )
        self._note_end(record, failed, Waiting("RunContainerError", error.message))

    async def _run_post_start(self, record: ContainerRecord) -> None:
        lifecycle = record.container.lifecycle
        if lifecycle is None or lifecycle.post_start is None or record.current is None:
            return
        good, said = await run_hook(lifecycle.post_start, self.monitor.target(record), self._clock)
        if not good and record.running:
            self.tell(record, "Warning", "FailedPostStartHook", f"PostStartHook failed: {said}")
            await self._kill(record, "FailedPostStartHook", self._state.own_grace_seconds)

    # The end

    def container_ended(self, state: ContainerRun) -> None:
        """The runtime says that a container has ended."""
        record = self._state.records.get(state.name)
        if record is None:
            return
        if record.current is None or record.current.id != state.id:
            # It ended before its own start was answered; `start` will look here.
            self._early_ends[state.id] = state
            return
        self._note_end(record, state)

    def _note_end(self, record: ContainerRecord, state: ContainerRun, failure: Waiting | None = None) -> None:
        """``failure``: why the container never ran, if it did not."""
        self._context.faults.reach("agent:container-ended")
        self.monitor.cancel(record)
        pod, directories = self._state.pod, self._state.directories
        if directories is not None and not state.message:
            state = with_termination_message(directories, record.container, state)
        restarts = will_restart(pod, record, state.exit_code or 0) and not self._state.stopping
        record.note_end(state, self._clock.monotonic(), restarts=restarts)
        if restarts and record.due > self._clock.monotonic():
            self._back_off(record)
        elif restarts:
            record.waiting = failure
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()
        self._state.changed.set()

    def _back_off(self, record: ContainerRecord) -> None:
        metadata = self._state.pod.metadata
        pause = _go_duration(record.due - self._clock.monotonic())
        where = f"{metadata.name}_{metadata.namespace}({metadata.uid})"
        message = f"back-off {pause} restarting failed container={record.name} pod={where}"
        record.waiting = Waiting("CrashLoopBackOff", message)
        text = f"Back-off restarting failed container {record.name} in pod {where}"
        self.tell(record, "Warning", "BackOff", text)

    async def _kill(self, record: ContainerRecord, why: str, seconds: float) -> None:
        """End one container of a pod that goes on."""
        self.tell(record, "Normal", "Killing", why)
        grace = GracePeriod(self._clock)
        grace.limit(seconds)
        await self._terminator().end([record], grace)

    async def end_all(self, grace: GracePeriod) -> None:
        """End every container of the pod; on return nothing of it runs."""

        def say(record: ContainerRecord) -> None:
            self.tell(record, "Normal", "Killing", f"Stopping container {record.name}")

        await self._terminator(say).end(self._state.containers, grace)

    def _terminator(self, tell: Callable[[ContainerRecord], None] = _silently) -> Terminator:
        return Terminator(
            self._state.pod,
            self._context.runtime,
            self._clock,
            address=self._context.config.address,
            ended=lambda: self._ended,
            tell=tell,
        )


def _go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
