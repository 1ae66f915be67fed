"""One pod from its arrival on the node to its end.

spec: node.md, sections 7, 9 and 17. The worker reads like the pod's life: set up (volumes, then claims), run containers
as the plan says, end them, let the claims go, and only then tell the API server that the pod is over: from that moment
on the control plane may give its devices to somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod, PodStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.objects import reference_to
from cathedra.client.resources import PODS
from cathedra.node.claims.errors import ClaimError, PrepareError, UnprepareError
from cathedra.node.pods.containers import ContainerRecord, Waiting, records_for, will_restart
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.environment import container_environment
from cathedra.node.pods.errors import ConfigError, VolumeError
from cathedra.node.pods.lastwords import last_words
from cathedra.node.pods.launch import container_spec, identity_of
from cathedra.node.pods.plan import make_plan
from cathedra.node.pods.probes import ProbeTarget, run_probe
from cathedra.node.pods.recovery import recover_records
from cathedra.node.pods.references import References
from cathedra.node.pods.status import PodView, pod_status
from cathedra.node.pods.termination import GracePeriod, Terminator, run_hook
from cathedra.node.pods.volumes import VolumeMaker
from cathedra.node.runtime.runtime import ContainerState, RuntimeFailure

__all__ = ["PodWorker"]

_STATUS_RETRY: Final = (1.0, 30.0)
_VOLUME_RETRY: Final = (2.0, 120.0)
_CREATE_RETRY: Final = (10.0, 300.0)
_DEFAULT_GRACE: Final = 30.0
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_LOG = logging.getLogger(__name__)


class PodWorker:
    """Runs one pod. `update`, `vanished` and `container_ended` may be called at any time."""

    def __init__(self, pod: Pod, context: PodContext, found: Sequence[ContainerState] = ()) -> None:
        self.pod = pod
        self._context = context
        self._clock = context.clock
        self._records = records_for(pod)
        self._found = tuple(found)
        self._directories = context.directories(pod)
        self._volumes: dict[str, str] = {}
        self._generation = 1
        self._sandbox = False
        self._started_at: float | None = None
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._stop = asyncio.Event()
        self._gone = asyncio.Event()
        self._grace = GracePeriod(context.clock)
        self._stopping = False
        self._failure: tuple[str, str] | None = None
        self._early_ends: dict[str, ContainerState] = {}
        self._probes: dict[str, list[asyncio.Task[None]]] = {}
        self._over = False
        if pod.metadata.deletion_timestamp is not None:
            self._ask_to_stop()

    # What happens outside

    def update(self, pod: Pod) -> None:
        """The pod's object has changed."""
        if _version(pod) <= _version(self.pod):
            return  # old news, or the echo of what this worker has written itself
        self.pod = pod
        if pod.metadata.deletion_timestamp is not None:
            self._ask_to_stop()
        self._wake.set()

    def vanished(self) -> None:
        """The pod's object is gone: end everything, tell nobody."""
        self._gone.set()
        self._ask_to_stop()
        self._wake.set()

    def container_ended(self, state: ContainerState) -> None:
        """The runtime says that a container has ended."""
        record = self._records.get(state.name)
        if record is None:
            return
        if record.current is None or record.current.id != state.id:
            # It ended before its own start was answered; `_start` will look here.
            self._early_ends[state.id] = state
            return
        self._note_end(record, state)

    def look_again(self) -> None:
        """Something that the status shows (as device health) has changed."""
        self._wake.set()

    @property
    def records(self) -> tuple[ContainerRecord, ...]:
        """The containers, init containers first."""
        return tuple(self._records.values())

    @property
    def over(self) -> bool:
        """Whether nothing of the pod is left on the node."""
        return self._over

    def _ask_to_stop(self) -> None:
        seconds = self.pod.metadata.deletion_grace_period_seconds
        if seconds is None:
            seconds = self.pod.spec.termination_grace_period_seconds
        self._grace.limit(_DEFAULT_GRACE if seconds is None else max(seconds, 1))
        self._stop.set()

    # The life of the pod

    async def run(self) -> None:
        """Live through the pod; returns when its object is gone, or cancelled."""
        try:
            if self.pod.status.phase not in _TERMINAL:
                await self._until_stopped(self._live())
            await self._terminate()
            self._over = True
            await self._wait_for_deletion()
        finally:
            await self._stop_probes(tuple(self._probes))

    async def _until_stopped(self, life: Coroutine[Any, Any, None]) -> None:
        living = asyncio.ensure_future(life)
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({living, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not living.done():
                living.cancel()
            await asyncio.gather(living, stopping, return_exceptions=True)
        if not living.cancelled():
            living.result()

    async def _live(self) -> None:
        recovered = recover_records(self.pod, self._records, self._found, self._clock.monotonic())
        self._started_at = self._clock.now()
        if self._directories is not None:
            self._generation = max(self._directories.generation(), 1)
        deadline = asyncio.ensure_future(self._deadline())
        try:
            if not recovered and self._stop.is_set():
                return
            await self._publish()
            if not recovered:
                await self._forget_leftovers()
            await self._set_up_volumes()
            if not recovered:
                await self._prepare_claims()
            self._sandbox = True
            for record in self.records:
                if record.running:
                    self._begin_probes(record)
            await self._run_containers()
        finally:
            deadline.cancel()
            await asyncio.gather(deadline, return_exceptions=True)

    async def _deadline(self) -> None:
        seconds = self.pod.spec.active_deadline_seconds
        if seconds is None:
            return
        started = self.pod.status.start_time
        begun = started.timestamp if started is not None else self._clock.now()
        await self._clock.sleep(max(0.0, begun + seconds - self._clock.now()))
        self._failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        self._ask_to_stop()

    async def _forget_leftovers(self) -> None:
        """Nothing of an earlier life runs any more; its ended containers only take up room."""
        for state in self._found:
            await self._context.runtime.remove(state.id)
        if self._directories is not None:
            self._directories.make()
            if self._found:
                self._generation += 1
            self._directories.set_generation(self._generation)

    async def _set_up_volumes(self) -> None:
        if self._directories is None:
            return
        pause = _VOLUME_RETRY[0]
        while True:
            maker = VolumeMaker(self._context.client, self.pod, self._directories, node_ip=self._context.config.address)
            try:
                self._volumes = await maker.make()
            except VolumeError as error:
                self._record("Warning", "FailedMount", str(error))
                await self._pause(pause)
                pause = min(pause * 2, _VOLUME_RETRY[1])
            else:
                return

    async def _prepare_claims(self) -> None:
        pause, longest = self._context.config.prepare_retry
        while True:
            try:
                await self._context.claims.prepare(self.pod)
            except PrepareError as error:
                message = f"Failed to prepare dynamic resources: {error}"
                self._record("Warning", "FailedPrepareDynamicResources", message)
                await self._publish()
                await self._pause(pause)
                pause = min(pause * 2, longest)
            else:
                return

    async def _run_containers(self) -> None:
        pause = _STATUS_RETRY[0]
        while True:
            self._wake.clear()
            plan = make_plan(self.pod, self.records, self._clock.monotonic())
            if plan.finished:
                return
            for name in plan.start:
                await self._start(self._records[name])
            written = await self._publish()
            if plan.start:
                continue
            until = None if plan.look_again is None else plan.look_again - self._clock.monotonic()
            if not written:
                until = pause if until is None else min(until, pause)
                pause = min(pause * 2, _STATUS_RETRY[1])
            else:
                pause = _STATUS_RETRY[0]
            await self._pause(until)

    async def _pause(self, seconds: float | None) -> None:
        """Wait for ``seconds``, or until something has happened."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0)):
                await self._wake.wait()
        self._wake.clear()

    # Containers

    async def _start(self, record: ContainerRecord) -> None:
        context = self._context
        container = record.container
        attempt = record.attempt + 1 if record.current is not None else record.attempt
        try:
            environment = await container_environment(
                self.pod,
                container,
                References(context.client, self.pod.metadata.namespace),
                node_ip=context.config.address,
                inherited=context.inherited_environment.items(),
            )
            spec = container_spec(
                self.pod,
                container,
                attempt=attempt,
                generation=self._generation,
                environment=environment,
                volumes=self._volumes,
                cdi_devices=context.claims.cdi_devices(self.pod, container),
                directories=self._directories,
            )
        except (ConfigError, ClaimError) as error:
            self._delay(record, "CreateContainerConfigError", str(error))
            return
        self._event(record, "Normal", "Pulled", f'Container image "{container.image}" already present on machine')
        if record.current is not None:
            await context.runtime.remove(record.current.id)
        # From here on the run exists, whatever becomes of the answer: the ID says which run it is.
        try:
            state = await context.runtime.start(spec)
        except RuntimeFailure as error:
            self._failed_to_start(record, attempt, spec.id, error)
            return
        if record.current is not None:
            record.previous = record.current
        record.attempt, record.waiting, record.stopping = attempt, None, False
        if self._clock.monotonic() >= record.due and record.backoff and attempt == 0:
            record.backoff = 0.0
        record.current = state
        self._event(record, "Normal", "Created", f"Created container: {record.name}")
        self._event(record, "Normal", "Started", f"Started container {record.name}")
        early = self._early_ends.pop(state.id, None)
        if early is not None:
            self._note_end(record, early)
            return
        self._begin_probes(record)
        await self._run_post_start(record)

    def _delay(self, record: ContainerRecord, reason: str, message: str) -> None:
        """The container cannot be made now; try again later. This is no run of it."""
        record.waiting = Waiting(reason, message)
        record.backoff = min(max(record.backoff * 2, _CREATE_RETRY[0]), _CREATE_RETRY[1])
        record.due = self._clock.monotonic() + record.backoff
        self._event(record, "Warning", "Failed", f"Error: {message}")

    def _failed_to_start(self, record: ContainerRecord, attempt: int, run_id: str, error: RuntimeFailure) -> None:
        if error.reason != "RunContainerError":
            self._delay(record, error.reason, error.message)
            return
        self._event(record, "Warning", "Failed", f"Error: {error.message}")
        now = self._clock.now()
        if record.current is not None:
            record.previous = record.current
        record.attempt = attempt
        failed = ContainerState(
            run_id,
            identity_of(self.pod),
            record.name,
            attempt,
            now,
            finished_at=now,
            exit_code=128,
            reason="StartError",
            message=error.message,
        )
        self._note_end(record, failed, reason="RunContainerError", message=error.message)

    async def _run_post_start(self, record: ContainerRecord) -> None:
        lifecycle = record.container.lifecycle
        current = record.current
        if lifecycle is None or lifecycle.post_start is None or current is None:
            return
        target = self._target(record, current)
        good, said = await run_hook(lifecycle.post_start, target, self._clock)
        if not good and record.running:
            self._event(record, "Warning", "FailedPostStartHook", f"PostStartHook failed: {said}")
            await self._kill(record, "FailedPostStartHook")

    def _note_end(self, record: ContainerRecord, state: ContainerState, *, reason: str = "", message: str = "") -> None:
        self._cancel_probes(record.name)
        if self._directories is not None and not state.message:
            state = last_words(self._directories, record.container, state)
        restarts = will_restart(self.pod, record, state.exit_code or 0) and not self._stopping
        record.note_end(state, self._clock.monotonic(), restarts=restarts)
        if restarts and record.due > self._clock.monotonic():
            seconds = f"{_go_duration(record.due - self._clock.monotonic())}"
            metadata = self.pod.metadata
            where = f"{record.name} pod={metadata.name}_{metadata.namespace}({metadata.uid})"
            record.waiting = Waiting("CrashLoopBackOff", f"back-off {seconds} restarting failed container={where}")
            text = f"Back-off restarting failed container {record.name} in pod {metadata.name}_{metadata.namespace}"
            self._event(record, "Warning", "BackOff", f"{text}({metadata.uid})")
        elif reason and restarts:
            record.waiting = Waiting(reason, message)
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()
        self._wake.set()

    # Probes

    def _target(self, record: ContainerRecord, state: ContainerState) -> ProbeTarget:
        return ProbeTarget(self._context.runtime, state.id, record.container, self._context.config.address)

    def _begin_probes(self, record: ContainerRecord) -> None:
        container = record.container
        record.started = container.startup_probe is None
        record.ready = container.readiness_probe is None
        probing = (container.startup_probe, container.readiness_probe, container.liveness_probe)
        if any(probe is not None for probe in probing) and record.running:
            self._probes.setdefault(record.name, []).append(asyncio.ensure_future(self._probe(record)))

    async def _probe(self, record: ContainerRecord) -> None:
        container, current = record.container, record.current
        if current is None:
            return
        target = self._target(record, current)

        def started(good: bool, said: str) -> None:
            record.started = record.started or good
            if not good:
                self._unhealthy(record, "Startup", said, kill=True)
            self._wake.set()

        def ready(good: bool, said: str) -> None:
            if record.ready != good:
                record.ready = good
                self._wake.set()
            if not good:
                self._unhealthy(record, "Readiness", said, kill=False)

        def alive(good: bool, said: str) -> None:
            if not good:
                self._unhealthy(record, "Liveness", said, kill=True)

        if container.startup_probe is not None:
            await run_probe(container.startup_probe, target, self._clock, started, once=True)
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(run_probe(container.readiness_probe, target, self._clock, ready))
            if container.liveness_probe is not None:
                group.create_task(run_probe(container.liveness_probe, target, self._clock, alive))

    def _unhealthy(self, record: ContainerRecord, which: str, said: str, *, kill: bool) -> None:
        if not record.running or record.stopping:
            return
        self._event(record, "Warning", "Unhealthy", f"{which} probe failed: {said}")
        if kill:
            why = f"Container {record.name} failed {which.lower()} probe, will be restarted"
            task = asyncio.ensure_future(self._kill(record, why))
            self._probes.setdefault(f"{record.name}/kill", []).append(task)

    async def _kill(self, record: ContainerRecord, why: str) -> None:
        """End one container of a pod that goes on."""
        self._event(record, "Normal", "Killing", why)
        grace = GracePeriod(self._clock)
        seconds = self.pod.spec.termination_grace_period_seconds
        grace.limit(_DEFAULT_GRACE if seconds is None else seconds)
        await self._terminator(tell=False).end([record], grace)

    def _cancel_probes(self, name: str) -> None:
        for task in self._probes.get(name, ()):
            task.cancel()

    async def _stop_probes(self, names: Iterable[str]) -> None:
        for name in names:
            tasks = self._probes.pop(name, [])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # The end

    def _terminator(self, *, tell: bool) -> Terminator:
        def say(record: ContainerRecord) -> None:
            if tell:
                self._event(record, "Normal", "Killing", f"Stopping container {record.name}")

        return Terminator(
            self.pod,
            self._context.runtime,
            self._clock,
            address=self._context.config.address,
            ended=lambda: self._ended,
            tell=say,
        )

    async def _terminate(self) -> None:
        self._stopping = True
        await self._adopt_strangers()
        await self._stop_probes(tuple(self._probes))
        if not self._stop.is_set():
            # The pod has run its course; only sidecars can still be there.
            self._grace.limit(self.pod.spec.termination_grace_period_seconds or _DEFAULT_GRACE)
        ending = asyncio.ensure_future(self._terminator(tell=True).end(self.records, self._grace))
        try:
            await self._publish()
            await ending
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        await self._unprepare()
        await self._publish_final()
        for record in self.records:
            if record.current is not None:
                await self._context.runtime.remove(record.current.id)
        if self._directories is not None:
            self._directories.remove_home()

    async def _adopt_strangers(self) -> None:
        """Containers that an earlier agent left, when the pod ended before this one looked at them."""
        for state in self._found:
            record = self._records.get(state.name)
            if record is None:
                await self._context.runtime.signal(state.id, 9)
                await self._context.runtime.remove(state.id)
            elif record.current is None:
                record.current, record.attempt = state, state.attempt

    async def _unprepare(self) -> None:
        uid = self.pod.metadata.uid
        while True:
            try:
                await self._context.claims.unprepare(uid)
            except UnprepareError as error:
                _LOG.warning("pod %s: %s", identity_of(self.pod), error)
                seconds = self._context.config.unprepare_retry
                await self._clock.sleep(seconds * (1 + 0.5 * self._context.random.random()))
            else:
                return

    async def _publish_final(self) -> None:
        pause = _STATUS_RETRY[0]
        while not self._gone.is_set() and not await self._publish(final=True):
            await self._pause(pause)
            pause = min(pause * 2, _STATUS_RETRY[1])

    async def _wait_for_deletion(self) -> None:
        """The pod is over. Its object stays until somebody deletes it; then say that nothing holds it any more."""
        pause = _STATUS_RETRY[0]
        while not self._gone.is_set():
            if self.pod.metadata.deletion_timestamp is None:
                await self._pause(None)
                continue
            metadata = self.pod.metadata
            pods = self._context.client.resource(PODS, metadata.namespace)
            try:
                await pods.delete(metadata.name, grace_period_seconds=0, uid=metadata.uid)
            except StatusError as error:
                if error.is_not_found or error.is_conflict:
                    # The watch will say so too; until then no new worker must take the pod for a new one.
                    await self._pause(_STATUS_RETRY[1])
                    break
                _LOG.warning("pod %s cannot be deleted: %s", identity_of(self.pod), error)
            except ConnectionError:
                _LOG.info("pod %s cannot be deleted now: no connection", identity_of(self.pod))
            await self._pause(pause)
            pause = min(pause * 2, _STATUS_RETRY[1])
        if self._directories is not None:
            self._directories.remove_all()

    # Telling the world

    def _record(self, type_: Any, reason: str, message: str) -> None:
        self._context.recorder.record(self.pod, type_, reason, message)

    def _event(self, record: ContainerRecord, type_: Any, reason: str, message: str) -> None:
        field = f"spec.{'initContainers' if record.init else 'containers'}{{{record.name}}}"
        self._context.recorder.record(reference_to(self.pod, field), type_, reason, message)

    def _status(self, *, final: bool) -> PodStatus:
        context = self._context
        health = {
            record.name: context.device_health(self.pod, record.container)
            for record in self.records
            if not record.init or (record.sidecar and context.config.report_sidecar_health)
        }
        view = PodView(
            now=self._clock.now(),
            runtime=context.runtime.name,
            host_ip=context.config.address,
            pod_ip=context.config.address,
            started_at=self._started_at,
            sandbox=self._sandbox,
            final=final,
            stopping=self._stopping,
            failure=self._failure,
            resources=health if not final else self._last_health(),
        )
        return pod_status(self.pod, self.records, view)

    def _last_health(self) -> dict[str, Any]:
        """What was last told: after its end a pod's devices are not its business any more."""
        statuses = (*self.pod.status.init_container_statuses, *self.pod.status.container_statuses)
        return {status.name: status.allocated_resources_status for status in statuses}

    async def _publish(self, *, final: bool = False) -> bool:
        """Write the status if it has changed; whether the API server now has it."""
        if self._gone.is_set() or self.pod.status.phase in _TERMINAL:
            return True
        metadata = self.pod.metadata
        pods = self._context.client.resource(PODS, metadata.namespace)
        for _ in range(5):
            status = self._status(final=final)
            if status == self.pod.status:
                return True
            try:
                self.pod = await pods.update_status(replace(self.pod, status=status))
            except StatusError as error:
                if error.is_not_found:
                    return True
                if not error.is_conflict or not await self._refresh():
                    _LOG.warning("status of pod %s cannot be written: %s", identity_of(self.pod), error)
                    return False
            except ConnectionError:
                return False
            else:
                return True
        return False

    async def _refresh(self) -> bool:
        metadata = self.pod.metadata
        try:
            pod = await self._context.client.resource(PODS, metadata.namespace).get(metadata.name)
        except StatusError as error:
            if error.is_not_found:
                self._gone.set()
            return error.is_not_found
        except ConnectionError:
            return False
        if pod.metadata.uid != metadata.uid:
            self.vanished()
            return True
        self.update(pod)
        return True


def _version(pod: Pod) -> int:
    version = pod.metadata.resource_version
    return int(version) if version.isdigit() else 0


def _go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
