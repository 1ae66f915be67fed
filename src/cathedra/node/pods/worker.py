"""One pod from its arrival on the node to its end, and its recovery after a restart of the agent.

docs/spec/node.md §7, §9 and §17. The worker admits the pod, sets it up (volumes, then claims), runs containers, stops
them and unprepares the claims. Only then does it report the pod as ended: from that moment on the control plane may
give its devices to another pod.

Each piece of state has one owner: the API object `PodObject`, the stage `PodLifecycle`, the containers the table of
`ContainerRunner`, volumes `PodPreparation`, the written status `StatusWriter`. The worker decides.

After a restart the runtime lists the containers, and the API has their last state. A pod with running containers
continues: no claim is prepared again, and no container runs twice. A pod without running containers that has not ended
starts over.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from cathedra.api.core.core_v1 import ContainerStateTerminated, ContainerStatus, Pod
from cathedra.api.undecodable import Undecodable
from cathedra.client.backoff import DoublingPauses
from cathedra.clock import Clock
from cathedra.node.concurrency import BlockTasks, Event, Wakeup, until_set
from cathedra.node.containers.records import ContainerRecord, is_over, make_plan, of_kind
from cathedra.node.containers.termination import GracePeriod
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.lifecycle import PodLifecycle, PodStage
from cathedra.node.pods.podobject import PodObject
from cathedra.node.pods.preparation import PodPreparation
from cathedra.node.pods.resizer import ALONE, Neighbours, PodResizer, ResourceGrants
from cathedra.node.pods.runner import ContainerRunner
from cathedra.node.pods.statuswriter import StatusWriter
from cathedra.node.runtime.runtime import LOST_REASON, ContainerRun
from cathedra.node.setup.launch import identity_of
from cathedra.semantics.pods import is_terminal

Admit = Callable[[Pod], Awaitable[Rejection | None]]
"""Returns the reason not to admit a pod; None if it is admitted."""

_RETRY: Final = (1.0, 30.0)
"""First and longest pause, in seconds, after something could not be written."""


class PodWorker:
    """Runs one pod. `update`, `vanished` and `container_ended` may be called at any time.

    ``admit`` is called once, for a pod that is new on this node. ``neighbours`` are the node's other
    pods.
    """

    __slots__ = (
        "_admit",
        "_clock",
        "_context",
        "_found",
        "_grace",
        "_grants",
        "_life",
        "_neighbours",
        "_new",
        "_object",
        "_preparation",
        "_resizer",
        "_runner",
        "_seen",
        "_starts",
        "_status",
        "_stop",
        "_tasks",
        "_wakeup",
    )

    def __init__(
        self,
        pod: Pod,
        context: PodContext,
        found: Sequence[ContainerRun] = (),
        *,
        admit: Admit | None = None,
        neighbours: Neighbours = ALONE,
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._admit = admit
        self._found = tuple(found)
        self._new = pod.status.start_time is None and not found
        self._seen = context.clock.monotonic()
        self._starts = False
        """True from the set-up of the pod until it runs."""
        self._tasks = BlockTasks()
        self._wakeup = Wakeup()
        self._stop = Event()
        self._grace = GracePeriod(context.clock)
        self._object = PodObject(pod, self._object_changed)
        self._life = PodLifecycle()
        self._grants = ResourceGrants(pod)
        self._neighbours = neighbours
        self._preparation = PodPreparation(self._object, self._life, context, self._wakeup)
        self._runner = ContainerRunner(
            self._object,
            self._preparation,
            context,
            grants=self._grants,
            tasks=self._tasks,
            changed=self._wakeup.notify,
        )
        table = self._runner.table
        self._resizer = PodResizer(
            self._object, self._grants, table, context, neighbours=neighbours, restart=self._runner.restart
        )
        self._status = StatusWriter(self._object, self._life, table, context, self._resizer)
        # The deletion may have been requested before this worker existed; no event will report it again.
        if self._object.deleted:
            self._ask_to_stop()

    # What happens outside

    def update(self, pod: Pod) -> None:
        """Note that the pod's object has changed."""
        self._object.offer(pod)

    def update_undecodable(self, what: Undecodable) -> None:
        """Note that the pod's object has changed, and cannot be decoded: the pod goes on as it was last known."""
        self._object.offer_undecodable(what)

    def vanished(self) -> None:
        """Note that the pod's object is gone: end everything, and write nothing more."""
        self._object.note_gone()

    def container_ended(self, run: ContainerRun) -> None:
        """Handle the end of a container, reported by the runtime."""
        self._runner.container_ended(run)

    def look_again(self) -> None:
        """Check everything again: device health has changed, or a driver has registered."""
        self._wakeup.notify()

    def _object_changed(self) -> None:
        self._runner.add_ephemeral()
        # Only others write a terminal phase while containers run: the collector of garbage, for a node that was away,
        # or an eviction. The claims may be deallocated from then on.
        if self._object.deleted or is_terminal(self.pod):
            self._ask_to_stop()
        self._wakeup.notify()

    def _ask_to_stop(self) -> None:
        # A second deletion can only shorten the grace period, as in Kubernetes.
        self._grace.limit(self._object.grace_seconds)
        self._stop.set()

    # What others may know

    @property
    def pod(self) -> Pod:
        """The pod as it is known here."""
        return self._object.pod

    @property
    def granted(self) -> Pod:
        """The pod, with the requests that it was granted on the node."""
        return self._grants.of(self.pod)

    @property
    def waits_for_room(self) -> bool:
        """Return True if a resize of the pod waits for other pods to release resources."""
        return self._resizer.waits_for_room

    @property
    def records(self) -> tuple[ContainerRecord, ...]:
        """The containers, init containers first."""
        return self._runner.table.all

    @property
    def runs(self) -> tuple[ContainerRun, ...]:
        """The last known run of each container, those that an earlier worker or agent left included."""
        runs = {run.id: run for run in self._found}
        runs |= {record.current.id: record.current for record in self.records if record.current is not None}
        return tuple(runs.values())

    @property
    def gone(self) -> bool:
        """Return True if the pod's object is gone."""
        return self._object.gone

    @property
    def next_change(self) -> Event:
        """Set when one of the containers changes the next time."""
        return self._runner.table.next_change

    @property
    def over(self) -> bool:
        """Return True if nothing of the pod is left on the node."""
        return self._life.over

    @property
    def counts(self) -> bool:
        """Return True if the pod takes up resources of the node."""
        return self._life.occupies and not is_terminal(self.pod)

    @property
    def new(self) -> bool:
        """Return True if no agent of the node had seen the pod before this one did."""
        return self._new

    # The life of the pod

    async def run(self) -> None:
        """Live through the pod; returns when its object is gone, or cancelled."""
        async with self._tasks:
            if not await self._is_rejected():
                if not is_terminal(self.pod):
                    await until_set(self._stop, self._live())
                await self._terminate()
            self._life.advance(PodStage.OVER)
            self._neighbours.freed()
            await self._wait_for_deletion()

    async def _is_rejected(self) -> bool:
        if self._admit is None or not self._new or self._stop.is_set() or is_terminal(self.pod):
            return False
        rejection = await self._admit(self.pod)
        if rejection is None:
            return False
        self._life.advance(PodStage.REJECTED)
        self._context.recorder.record(self.pod, "Warning", rejection.reason, rejection.message)
        await self._until_written(lambda: self._status.publish_rejection(rejection))
        return True

    async def _live(self) -> None:
        recovered = recover_containers(self.pod, self._runner.table.all, self._found, self._clock)
        self._runner.adopt(recovered.records)
        if recovered.continues:
            self._grants.recover(self.pod)
        # Nothing of the pod runs and it is being deleted: it is not set up just to be torn down.
        if self._stop.is_set() and not recovered.continues:
            return
        self._life.advance(PodStage.SETTING_UP)
        self._life.note_acknowledged(self._clock.now())
        self._tasks.start(self._enforce_deadline())
        # A pod that goes on is described by what the earlier agent wrote. Until this one has found its volumes and its
        # sandbox, it would write that the pod is not ready, for every pod of the node.
        if not recovered.continues:
            self._context.metrics.pod_started()
            self._starts = True
            await self._status.publish()
        await self._set_up(anew=not recovered.continues)
        self._life.advance(PodStage.RUNNING)
        self._runner.resume_probes()
        self._tasks.start(self._preparation.refresh_volumes())
        await self._run_containers()

    async def _enforce_deadline(self) -> None:
        seconds = self.pod.spec.active_deadline_seconds
        if seconds is None:
            return
        started = self.pod.status.start_time
        begun = started.timestamp if started is not None else self._clock.now()
        await self._clock.sleep(max(0.0, begun + seconds - self._clock.now()))
        self._life.note_failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        self._ask_to_stop()

    async def _set_up(self, *, anew: bool) -> None:
        """Volumes, and unless the pod goes on from where an earlier agent left it, claims."""
        faults = self._context.faults
        if anew:
            # Nothing of an earlier life runs any more; its ended containers only take up room.
            for run in self._found:
                await self._context.runtime.remove(run.id)
            await self._preparation.begin(anew=bool(self._found))
        await self._preparation.make_volumes()
        faults.reach("agent:volumes-made")
        if anew:
            await self._preparation.prepare_claims(self._status.publish)
            faults.reach("agent:claims-prepared")
        await self._preparation.make_cgroup(self._grants, self._status.publish)
        await self._preparation.make_sandbox(self._status.publish)
        faults.reach("agent:sandbox-made")

    async def _run_containers(self) -> None:
        """Start containers as planned, and write the status after each change, until the pod has ended."""
        pauses = DoublingPauses(*_RETRY)
        while True:
            # Cleared before the state is read. A change during the reading then wakes the next wait; cleared afterwards
            # it would be lost.
            self._wakeup.clear()
            await self._resizer.step()
            plan = make_plan(self.pod, self._runner.table.all, self._clock.monotonic())
            if plan.finished:
                return
            for name in plan.start:
                await self._runner.start(name)
            written = await self._status.publish()
            self._measure_start()
            # Starting has changed the records, so the plan is computed again before waiting.
            if plan.start:
                continue
            until = None if plan.look_again is None else plan.look_again - self._clock.monotonic()
            if self._resizer.look_again is not None:
                rest = max(0.0, self._resizer.look_again - self._clock.monotonic())
                until = rest if until is None else min(until, rest)
            if not written:
                pause = pauses.take()
                until = pause if until is None else min(until, pause)
            else:
                pauses.reset()
            await self._wakeup.wait(until)

    def _measure_start(self) -> None:
        """Measure the time until the pod's phase is Running; a pod that ends sooner is not measured."""
        if self._starts and self.pod.status.phase != "Pending":
            self._starts = False
            if self.pod.status.phase == "Running":
                self._context.metrics.pod_runs(self._clock.monotonic() - self._seen)

    # The end

    async def _terminate(self) -> None:
        self._life.advance(PodStage.STOPPING)
        faults = self._context.faults
        # Probes and timers must not restart containers of a pod that is stopping.
        self._tasks.cancel_all()
        await self._adopt_orphans()
        if not self._stop.is_set():
            # The pod has run its course; only sidecars can still be there.
            self._grace.limit(self._object.own_grace_seconds)
        # The status shows the termination while the containers still end: clients wait for that, not for the end.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._runner.end_all(self._grace))
            await self._status.publish()
        await self._preparation.stop_sandbox()
        self._life.advance(PodStage.RELEASING)
        faults.reach("agent:containers-stopped")
        # Only after the last container has ended: a driver may reset the device at once. And before the final status,
        # from which on the control plane may allocate the devices to another pod.
        await self._preparation.unprepare_claims()
        faults.reach("agent:claims-unprepared")
        await self._until_written(lambda: self._status.publish(final=True))
        faults.reach("agent:final-status-written")
        # After the final status: until it is written, a restarted agent needs the ended containers for their exit
        # codes.
        await self._remove_containers()
        await self._preparation.remove_sandbox()
        self._preparation.remove_cgroup()
        self._preparation.release_devices()
        faults.reach("agent:containers-removed")
        if self._preparation.directories is not None:
            self._preparation.directories.remove_home()

    async def _adopt_orphans(self) -> None:
        """Handle containers that an earlier agent left, if the pod ended before they were adopted."""
        for run in self._found:
            record = self._runner.table.get(run.name)
            if record is None:
                await self._context.runtime.signal(run.id, signal.SIGKILL)
            elif record.current is None:
                self._runner.adopt((record.adopt(run),))

    async def _remove_containers(self) -> None:
        """Remove the last run of each container, and every earlier one that an agent did not come to remove."""
        runs = {run.id for run in self._found}
        runs |= {record.current.id for record in self._runner.table.all if record.current is not None}
        for run_id in sorted(runs):
            await self._context.runtime.remove(run_id)

    async def _until_written(self, publish: Callable[[], Awaitable[bool]]) -> None:
        pauses = DoublingPauses(*_RETRY)
        while not self._object.gone and not await publish():
            await self._wakeup.wait(pauses.take())

    async def _wait_for_deletion(self) -> None:
        """Keep the ended pod's object until its deletion is requested, then confirm the deletion."""
        pauses = DoublingPauses(*_RETRY)
        while not self._object.gone:
            if not self._object.deleted:
                await self._wakeup.wait(None)
                continue
            if await self._status.confirm_deletion():
                # Until the watch shows the deletion, no new worker must take the pod for a new one.
                await self._wakeup.wait(_RETRY[1])
                break
            await self._wakeup.wait(pauses.take())
        if self._preparation.directories is not None:
            self._preparation.directories.remove_all()


_LOST: Final = "The container could not be located when the node agent came back.  The container used to be Running"


class RecoveredContainers(NamedTuple):
    """The pod's containers, and whether the pod continues with them; otherwise it starts over."""

    records: tuple[ContainerRecord, ...]
    continues: bool


def recover_containers(
    pod: Pod, records: Sequence[ContainerRecord], found: Sequence[ContainerRun], clock: Clock
) -> RecoveredContainers:
    """Merge what an earlier agent left into the fresh ``records``.

    A container that has run and that its restart policy does not start again stays ended, also if the runtime has lost
    it, as after a restart of the machine. If the pod starts over with the others, their restart counts and last states
    are kept, and everything else of them is new.
    """
    latest = {run.name: run for run in sorted(found, key=lambda run: run.attempt)}
    known = pod.status
    every = (*known.init_container_statuses, *known.container_statuses, *known.ephemeral_container_statuses)
    statuses = {status.name: status for status in every}
    recovered = tuple(
        _recover(pod, record, statuses.get(record.name), latest.get(record.name), clock.now()) for record in records
    )
    if any(record.running for record in recovered):
        return RecoveredContainers(recovered, continues=True)
    if make_plan(pod, recovered, clock.monotonic()).finished:
        return RecoveredContainers(recovered, continues=True)
    over = {record.name for record in of_kind(recovered, init=False) if is_over(pod, record)}
    kept = tuple(record if record.name in over else record.renew() for record in recovered)
    return RecoveredContainers(kept, continues=False)


def _recover(
    pod: Pod, record: ContainerRecord, status: ContainerStatus | None, run: ContainerRun | None, now: float
) -> ContainerRecord:
    if status is None:
        return record if run is None else record.adopt(run)
    record = replace(record, attempt=status.restart_count)
    if status.last_state.terminated is not None:
        last = _ended(pod, record, status.last_state.terminated, status.restart_count - 1)
        record = replace(record, previous=last)
    if run is not None and run.attempt >= status.restart_count:
        if run.attempt > status.restart_count and status.state.terminated is not None:
            last = _ended(pod, record, status.state.terminated, status.restart_count)
            record = replace(record, previous=last)
        return record.adopt(run)
    if status.state.terminated is not None:
        return record.adopt(_ended(pod, record, status.state.terminated, status.restart_count))
    if status.state.running is not None:
        return record.adopt(_lost(pod, record, status, now))
    return record if run is None else record.adopt(run)


def _lost(pod: Pod, record: ContainerRecord, status: ContainerStatus, now: float) -> ContainerRun:
    """Return the run of a container that the runtime no longer has. The time of its end is unknown; now is assumed."""
    assert status.state.running is not None
    began = status.state.running.started_at
    return ContainerRun(
        status.container_id.partition("://")[2],
        identity_of(pod),
        record.name,
        status.restart_count,
        began.timestamp if began is not None else 0.0,
        finished_at=now,
        exit_code=137,
        reason=LOST_REASON,
        message=_LOST,
    )


def _ended(pod: Pod, record: ContainerRecord, ended: ContainerStateTerminated, attempt: int) -> ContainerRun:
    return ContainerRun(
        ended.container_id.partition("://")[2],
        identity_of(pod),
        record.name,
        max(attempt, 0),
        ended.started_at.timestamp if ended.started_at is not None else 0.0,
        finished_at=ended.finished_at.timestamp if ended.finished_at is not None else 0.0,
        exit_code=ended.exit_code,
        signal=ended.signal,
        reason=ended.reason,
        message=ended.message,
    )
