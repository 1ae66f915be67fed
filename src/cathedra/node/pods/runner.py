"""Starting a pod's containers and noting their ends: everything that happens to one container while the pod lives.

The runner is the only one that changes the pod's `ContainerTable`. Which container to start is up to the plan; here is
how, and what follows from it: events, hooks, probes, back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, Literal

from msgspec.structs import replace

from cathedra.api.struct import replace as replace_struct
from cathedra.client.objects import reference_to
from cathedra.node.claims.checkpoint import ClaimError
from cathedra.node.concurrency import BlockTasks
from cathedra.node.containers.probes import ProbeKind, ProbeMonitor, ProbeTarget
from cathedra.node.containers.records import (
    ContainerRecord,
    ContainerTable,
    Waiting,
    ephemeral_record,
    records_for,
    will_restart,
)
from cathedra.node.containers.termination import GracePeriod, Terminator, run_hook, with_termination_message
from cathedra.node.deviceplugins.manager import DeviceGrant
from cathedra.node.images import ImagePuller, ImageUnavailable, PullSecrets
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.podobject import PodObject
from cathedra.node.pods.preparation import PodPreparation
from cathedra.node.pods.resizer import ResourceGrants
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, Image, RuntimeFailure
from cathedra.node.setup.launch import LaunchInputs, container_environment, container_spec, identity_of
from cathedra.node.setup.references import ContainerConfigError, References
from cathedra.releases import behaviours

NO_IMAGES: Final = "containers run on the root file system of their node"
"""Text of the Pulled event for runtimes without images."""


class ContainerRunner:
    """The containers of one pod; ``changed`` is called whenever one of them has changed by itself."""

    __slots__ = (
        "_changed",
        "_clock",
        "_context",
        "_early_ends",
        "_grants",
        "_images",
        "_life",
        "_pod",
        "_preparation",
        "_probes",
        "_tasks",
        "table",
    )

    def __init__(
        self,
        pod: PodObject,
        preparation: PodPreparation,
        context: PodContext,
        *,
        grants: ResourceGrants,
        tasks: BlockTasks,
        changed: Callable[[], None],
    ) -> None:
        self._grants = grants
        self.table = ContainerTable(records_for(pod.pod).values())
        self._pod = pod
        self._life = preparation.life
        self._preparation = preparation
        self._context = context
        self._clock = context.clock
        self._tasks = tasks
        self._changed = changed
        self._early_ends: dict[str, ContainerRun] = {}
        """Runs that ended before they were in the table, by ID."""
        images = context.runtime.images
        self._images = None
        if images is not None:
            self._images = ImagePuller(images, PullSecrets(context.client, pod.pod), context.clock)
        self._probes = ProbeMonitor(context.clock, tasks, self._probe_reported)

    def adopt(self, records: Iterable[ContainerRecord]) -> None:
        """Go on from what an earlier agent left."""
        for record in records:
            self.table.put(record)
            # A container returned by an earlier attempt of this agent: its end may have been reported before the
            # adoption.
            if record.current is not None:
                self._note_early_end(record.current)

    def add_ephemeral(self) -> None:
        """Ephemeral containers are added to a pod while it runs."""
        for ephemeral in self._pod.pod.spec.ephemeral_containers:
            if self.table.get(ephemeral.name) is None:
                self.table.put(ephemeral_record(ephemeral))

    # The beginning

    async def start(self, name: str) -> None:
        """Start a container. If that fails, its record has the reason and the time of the next attempt."""
        record = self.table[name]
        self._context.metrics.container_started(_kind(record))
        try:
            image = await self._image(record)
            await self._preparation.keep_sandbox()
            spec = await self._describe(record, image)
        except ImageUnavailable as error:
            self._wait_for_image(name, error)
            return
        except RuntimeFailure as error:
            self._delay(name, Waiting(error.reason, error.message))
            return
        except (ContainerConfigError, ClaimError) as error:
            self._delay(name, Waiting("CreateContainerConfigError", str(error)))
            return
        # Only now: until the next start the ended container serves its logs.
        if record.current is not None:
            await self._context.runtime.remove(record.current.id)
        if not await self._called_plugins(record):
            return
        # From here on the run may exist, even if the call fails; its ID identifies it.
        self._context.faults.reach("agent:container-starting")
        try:
            record = await self._begun(spec)
        except RuntimeFailure as error:
            self._failed_to_start(name, spec, error)
            return
        if record.running:
            self._probes.begin(record, self._target(record))
            await self._run_post_start(record)

    async def _begun(self, spec: ContainerSpec) -> ContainerRecord:
        """Start a container.

        The run is recorded even if the pod begins to terminate meanwhile: it must be stopped, with its grace period,
        before the pod's claims are unprepared.

        Raises:
            RuntimeFailure: it does not start.
        """
        # Shielded: a cancelled start may still create the container. Without its record nothing would stop it, and the
        # claims would be unprepared under a running container.
        starting = asyncio.ensure_future(self._context.runtime.start(spec))
        try:
            run = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(RuntimeFailure):
                self._note_start(await starting)
            raise
        return self._note_start(run)

    def _note_start(self, run: ContainerRun) -> ContainerRecord:
        self._context.faults.reach("agent:container-started")
        record = self.table[run.name].begin(run, self._clock.monotonic())
        self.table.put(record)
        self._record_start_events(record)
        for warning in run.warnings:
            self._event(record, "Warning", "CDIEditsNotApplied", warning)
        self._note_early_end(run)
        return self.table[run.name]

    async def _called_plugins(self, record: ContainerRecord) -> bool:
        """Return True if no device plugin keeps the container from starting."""
        if self._context.devices is None:
            return True
        try:
            await self._context.devices.before_start(self._pod.pod, record.container)
        except RuntimeFailure as error:
            self._delay(record.name, Waiting(error.reason, error.message))
            return False
        return True

    def _record_start_events(self, record: ContainerRecord) -> None:
        """From 1.35 on the events leave the name to the field that they are about."""
        created, started = f"Created container: {record.name}", f"Started container {record.name}"
        if self._context.gates.has(behaviours.SHORT_CONTAINER_EVENTS):
            created, started = "Container created", "Container started"
        self._event(record, "Normal", "Created", created)
        self._event(record, "Normal", "Started", started)

    async def _image(self, record: ContainerRecord) -> tuple[str, Image] | None:
        """Pull the container's image if needed; None: the runtime has no images."""
        event = partial(self._event, record)
        if self._images is None:
            event("Normal", "Pulled", f'Container image "{record.container.image}" is not pulled: {NO_IMAGES}')
            return None
        return await self._images.ensure(record.container, event)

    def _wait_for_image(self, name: str, error: ImageUnavailable) -> None:
        why = Waiting(error.reason, error.message)
        self._context.metrics.container_failed(_kind(self.table[name]), why.reason)
        if error.again is None:
            self.table.put(self.table[name].delay(why, self._clock.monotonic()))
        else:
            self.table.put(self.table[name].postpone(why, self._clock.monotonic() + error.again))
        self._event(self.table[name], "Warning", "Failed", f"Error: {error.reason}")

    async def _describe(self, record: ContainerRecord, image: tuple[str, Image] | None) -> ContainerSpec:
        context, pod = self._context, self._grants.of(self._pod.pod)
        container = replace_struct(record.container, resources=self._grants.resources(record.container))
        environment = await container_environment(
            pod,
            container,
            References(context.client, pod.metadata.namespace),
            replace(context.facts, pod_address=self._life.address),
            inherited=context.inherited_environment.items(),
        )
        spec = container_spec(
            pod,
            container,
            LaunchInputs(
                generation=self._preparation.generation,
                environment=environment,
                volumes=self._preparation.volumes,
                cdi_devices=context.claims.cdi_devices(pod, container),
                directories=self._preparation.directories,
                node=context.facts,
            ),
            attempt=record.next_attempt,
        )
        for grant in context.devices.grants(pod, container) if context.devices is not None else ():
            spec = _with_devices(spec, grant)
        if context.cgroups is not None:
            spec = replace(spec, cgroup_parent=context.cgroups.path_of(pod))
        return spec if image is None else replace(spec, image=image[0], image_id=image[1].id)

    def _delay(self, name: str, why: Waiting) -> None:
        """Note that the container cannot be made now and is tried again later. This does not count as a run."""
        self._context.metrics.container_failed(_kind(self.table[name]), why.reason)
        self.table.put(self.table[name].delay(why, self._clock.monotonic()))
        self._event(self.table[name], "Warning", "Failed", f"Error: {why.message}")

    def _failed_to_start(self, name: str, spec: ContainerSpec, error: RuntimeFailure) -> None:
        why = Waiting(error.reason, error.message)
        if error.reason != "RunContainerError":
            self._delay(name, why)
            return
        self._context.metrics.container_failed(_kind(self.table[name]), why.reason)
        self._event(self.table[name], "Warning", "Failed", f"Error: {error.message}")
        now = self._clock.now()
        failed = ContainerRun(
            spec.id,
            identity_of(self._pod.pod),
            name,
            spec.attempt,
            now,
            finished_at=now,
            exit_code=128,
            reason="StartError",
            message=error.message,
        )
        restarts = self._restarts(self.table[name], failed)
        self.table.put(self.table[name].fail_to_start(failed, self._clock.monotonic(), restarts=restarts, waiting=why))
        self._after_end(name, restarts=restarts)

    async def _run_post_start(self, record: ContainerRecord) -> None:
        lifecycle = record.container.lifecycle
        if lifecycle is None or lifecycle.post_start is None:
            return
        good, said = await run_hook(lifecycle.post_start, self._target(record), self._clock)
        if not good and self.table[record.name].running:
            self._event(record, "Warning", "FailedPostStartHook", f"PostStartHook failed: {said}")
            await self._kill(record.name, "FailedPostStartHook", self._pod.own_grace_seconds)

    def _target(self, record: ContainerRecord) -> ProbeTarget:
        """Return the container as probes and hooks reach it; it must have been started."""
        assert record.current is not None
        return ProbeTarget(self._context.runtime, record.current.id, record.container, self._address)

    @property
    def _address(self) -> str:
        """Return the address of the pod's ports."""
        return self._life.address or self._context.config.address

    # Probes

    def resume_probes(self) -> None:
        """Probe the containers that an earlier agent has started."""
        for record in self.table.all:
            if record.running:
                self.table.put(record.unprobed())
                self._probes.begin(record, self._target(record))

    def _probe_reported(self, name: str, kind: ProbeKind, *, good: bool, output: str) -> None:
        record = self.table[name]
        # A late result of a probe of an earlier run must not kill or restart the new one.
        if not record.running:
            return
        if not good and not record.stopping:
            self._event(record, "Warning", "Unhealthy", f"{kind.value} probe failed: {output}")
        if kind is ProbeKind.READINESS:
            self.table.put(record.probed(ready=good))
        elif kind is ProbeKind.STARTUP and good:
            self.table.put(record.probed(started=True))
        elif not good and not record.stopping:
            self._tasks.start(self._kill_unhealthy(record, kind))
        if self.table[name] != record:
            self._changed()

    async def _kill_unhealthy(self, record: ContainerRecord, kind: ProbeKind) -> None:
        container = record.container
        probe = container.startup_probe if kind is ProbeKind.STARTUP else container.liveness_probe
        grace = probe.termination_grace_period_seconds if probe is not None else None
        seconds = self._pod.own_grace_seconds if grace is None else grace
        why = f"Container {record.name} failed {kind.value.lower()} probe, will be restarted"
        await self._kill(record.name, why, seconds)

    # The end

    def container_ended(self, run: ContainerRun) -> None:
        """Handle the end of a container, reported by the runtime."""
        record = self.table.get(run.name)
        if record is None:
            return
        if record.current is None or record.current.id != run.id:
            # It ended before its own start was answered, or before it was adopted; `start` and `adopt` look here.
            self._early_ends[run.id] = run
            return
        self._note_end(run.name, run)

    def _note_early_end(self, run: ContainerRun) -> None:
        """Record the end of a run that was reported before the run was in the table."""
        early = self._early_ends.pop(run.id, None)
        if early is not None:
            self._note_end(run.name, early)

    def _note_end(self, name: str, run: ContainerRun) -> None:
        self._context.faults.reach("agent:container-ended")
        record, directories = self.table[name], self._preparation.directories
        # Read at once: the next run of the container gets a new file.
        if directories is not None and not run.message:
            run = with_termination_message(directories, record.container, run)
        restarts = self._restarts(record, run)
        self.table.put(record.end(run, self._clock.monotonic(), restarts=restarts))
        self._after_end(name, restarts=restarts)

    def _restarts(self, record: ContainerRecord, run: ContainerRun) -> bool:
        return not self._life.stopping and will_restart(self._pod.pod, record, run.exit_code or 0)

    def _after_end(self, name: str, *, restarts: bool) -> None:
        self._probes.cancel(name)
        if restarts and self.table[name].due > self._clock.monotonic():
            self._back_off(name)
        self._changed()

    def _back_off(self, name: str) -> None:
        record, metadata = self.table[name], self._pod.pod.metadata
        pause = _go_duration(record.due - self._clock.monotonic())
        where = f"{metadata.name}_{metadata.namespace}({metadata.uid})"
        message = f"back-off {pause} restarting failed container={name} pod={where}"
        self.table.put(record.wait(Waiting("CrashLoopBackOff", message)))
        self._event(record, "Warning", "BackOff", f"Back-off restarting failed container {name} in pod {where}")

    async def _kill(self, name: str, why: str, seconds: float) -> None:
        """End one container of a pod that goes on."""
        self._event(self.table[name], "Normal", "Killing", why)
        grace = GracePeriod(self._clock)
        grace.limit(seconds)
        await self._terminator(self._mark_stopping).end((name,), grace)

    async def restart(self, name: str) -> None:
        """End a container that is to begin again with other resources."""
        why = f"Container {name} resize requires restart"
        self._tasks.start(self._kill(name, why, self._pod.own_grace_seconds))

    async def end_all(self, grace: GracePeriod) -> None:
        """End every container of the pod; on return nothing of it runs."""

        def stopping(name: str) -> None:
            self._mark_stopping(name)
            self._event(self.table[name], "Normal", "Killing", f"Stopping container {name}")

        await self._terminator(stopping).end([record.name for record in self.table.all], grace)

    def _mark_stopping(self, name: str) -> None:
        self.table.put(self.table[name].stop())

    def _terminator(self, stopping: Callable[[str], None]) -> Terminator:
        return Terminator(self.table, self._context.runtime, self._clock, address=self._address, stopping=stopping)

    def _event(self, record: ContainerRecord, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        kind = "initContainers" if record.init else "ephemeralContainers" if record.ephemeral else "containers"
        field = f"spec.{kind}{{{record.name}}}"
        self._context.recorder.record(reference_to(self._pod.pod, field), type_, reason, message)


def _kind(record: ContainerRecord) -> str:
    """Return the kind of a container as metrics name it."""
    return "init_container" if record.init else "ephemeral_container" if record.ephemeral else "container"


def _with_devices(spec: ContainerSpec, grant: DeviceGrant) -> ContainerSpec:
    """Return the container with what a device plugin gives it; its own variables win, as with a kubelet."""
    return replace(
        spec,
        environment=(*grant.environment.items(), *spec.environment),
        mounts=(*spec.mounts, *grant.mounts),
        device_nodes=(*spec.device_nodes, *grant.nodes),
        cdi_devices=tuple(dict.fromkeys((*spec.cdi_devices, *grant.cdi_devices))),
        annotations={**spec.annotations, **grant.annotations},
    )


def _go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
