"""One pod from its arrival on the node to its end.

spec: node.md, sections 7, 9 and 17. The worker reads like the pod's life: admit it, set it up (volumes, then claims),
run containers as the plan says, end them, let the claims go, and only then tell the API server that the pod is over:
from that moment on the control plane may give its devices to somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Literal

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.client.resources import PODS
from cathedra.node.claims.errors import PrepareError, UnprepareError
from cathedra.node.containers.plan import make_plan
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.containers.termination import GracePeriod
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.podstate import PodState
from cathedra.node.pods.recovery import recover_records
from cathedra.node.pods.running import ContainerRunner
from cathedra.node.pods.statuswriter import StatusWriter, newer
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.node.setup.errors import VolumeError
from cathedra.node.setup.launch import identity_of
from cathedra.node.setup.volumes import VolumeMaker, is_payload
from cathedra.semantics.pods import is_terminal

__all__ = ["Admit", "PodWorker"]

Admit = Callable[[Pod], Awaitable[Rejection | None]]
"""Why a node does not take a pod; None if it does."""

_STATUS_RETRY: Final = (1.0, 30.0)
_VOLUME_RETRY: Final = (2.0, 120.0)
_VOLUME_REFRESH: Final = 60.0
"""Seconds, up to half as many more, after which volumes are brought up to date."""
_LOG = logging.getLogger(__name__)


class PodWorker:
    """Runs one pod. `update`, `vanished` and `container_ended` may be called at any time.

    ``admit`` says why the node does not take the pod, if it does not; it is asked once, about a pod that is new here.
    """

    def __init__(
        self, pod: Pod, context: PodContext, found: Sequence[ContainerRun] = (), *, admit: Admit | None = None
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._state = PodState.of(pod, context)
        self._admit = admit
        self._rejected = False
        self._new = pod.status.start_time is None and not found
        self._containers = ContainerRunner(self._state, context)
        self._status = StatusWriter(self._state, context, self.update)
        self._found = tuple(found)
        self._stop = asyncio.Event()
        self._grace = GracePeriod(context.clock)
        self._over = False
        if pod.metadata.deletion_timestamp is not None:
            self._ask_to_stop()

    # What happens outside

    def update(self, pod: Pod) -> None:
        """The pod's object has changed."""
        state = self._state
        if pod.metadata.uid != state.pod.metadata.uid:
            self.vanished()
            return
        if not newer(pod, state.pod):
            return
        state.pod = pod
        state.look_for_new_containers()
        if pod.metadata.deletion_timestamp is not None:
            self._ask_to_stop()
        state.changed.set()

    def vanished(self) -> None:
        """The pod's object is gone: end everything, tell nobody."""
        self._state.gone.set()
        self._ask_to_stop()
        self._state.changed.set()

    def container_ended(self, state: ContainerRun) -> None:
        """The runtime says that a container has ended."""
        self._containers.container_ended(state)

    def look_again(self) -> None:
        """Something that the status shows (as device health) has changed."""
        self._state.changed.set()

    @property
    def pod(self) -> Pod:
        """The pod as it is known here."""
        return self._state.pod

    @property
    def records(self) -> tuple[ContainerRecord, ...]:
        """The containers, init containers first."""
        return self._state.containers

    @property
    def over(self) -> bool:
        """Whether nothing of the pod is left on the node."""
        return self._over

    @property
    def counts(self) -> bool:
        """Whether the pod takes up room on the node."""
        return not self._over and not self._rejected and not is_terminal(self.pod)

    @property
    def new(self) -> bool:
        """Whether no agent of the node had seen the pod before this one did."""
        return self._new

    def _ask_to_stop(self) -> None:
        self._grace.limit(self._state.grace_seconds)
        self._stop.set()

    # The life of the pod

    async def run(self) -> None:
        """Live through the pod; returns when its object is gone, or cancelled."""
        try:
            if not await self._is_rejected():
                if not is_terminal(self.pod):
                    await self._until_stopped(self._live())
                await self._terminate()
            self._over = True
            await self._wait_for_deletion()
        finally:
            await self._containers.monitor.stop()

    async def _is_rejected(self) -> bool:
        if self._admit is None or not self._new or self._stop.is_set() or is_terminal(self.pod):
            return False
        rejection = await self._admit(self.pod)
        if rejection is None:
            return False
        self._rejected = True
        self._record("Warning", rejection.reason, rejection.message)
        await self._publish_until_written(lambda: self._status.publish_rejection(rejection))
        return True

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
        state = self._state
        recovered = recover_records(state.pod, state.records, self._found, self._clock)
        state.started_at = self._clock.now()
        if state.directories is not None:
            state.generation = max(state.directories.generation(), 1)
        beside = [asyncio.ensure_future(self._deadline())]
        try:
            if not recovered and self._stop.is_set():
                return
            await self._status.publish()
            if not recovered:
                await self._forget_leftovers()
            maker = await self._set_up_volumes()
            self._context.faults.reach("agent:volumes-made")
            if not recovered:
                await self._prepare_claims()
                self._context.faults.reach("agent:claims-prepared")
            state.sandbox = True
            for record in state.containers:
                if record.running:
                    self._containers.monitor.begin(record)
            beside.append(asyncio.ensure_future(self._refresh_volumes(maker)))
            await self._run_containers()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _deadline(self) -> None:
        seconds = self.pod.spec.active_deadline_seconds
        if seconds is None:
            return
        started = self.pod.status.start_time
        begun = started.timestamp if started is not None else self._clock.now()
        await self._clock.sleep(max(0.0, begun + seconds - self._clock.now()))
        self._state.failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        self._ask_to_stop()

    async def _forget_leftovers(self) -> None:
        """Nothing of an earlier life runs any more; its ended containers only take up room."""
        for found in self._found:
            await self._context.runtime.remove(found.id)
        state = self._state
        if state.directories is not None:
            state.directories.make()
            if self._found:
                state.generation += 1
            state.directories.set_generation(state.generation)

    async def _set_up_volumes(self) -> VolumeMaker | None:
        """Answers who can bring them up to date later; None on a node without a disk."""
        directories = self._state.directories
        if directories is None:
            return None
        pause = _VOLUME_RETRY[0]
        while True:
            maker = VolumeMaker(self._context.client, self.pod, directories, self._context.facts, self._clock)
            try:
                self._state.volumes = await maker.make()
            except VolumeError as error:
                self._record("Warning", "FailedMount", str(error))
                await self._pause(pause)
                pause = min(pause * 2, _VOLUME_RETRY[1])
            else:
                return maker

    async def _refresh_volumes(self, maker: VolumeMaker | None) -> None:
        """Config maps and secrets change, and tokens expire, while the pod runs."""
        if maker is None or not any(is_payload(volume) for volume in self.pod.spec.volumes):
            return
        while True:
            await self._clock.sleep(_VOLUME_REFRESH * (1 + 0.5 * self._context.random.random()))
            try:
                await maker.refresh(self.pod)
            except VolumeError as error:
                self._record("Warning", "FailedMount", str(error))

    async def _prepare_claims(self) -> None:
        pause, longest = self._context.config.prepare_retry
        while True:
            try:
                await self._context.claims.prepare(self.pod)
            except PrepareError as error:
                message = f"Failed to prepare dynamic resources: {error}"
                self._record("Warning", "FailedPrepareDynamicResources", message)
                await self._status.publish()
                await self._pause(pause)
                pause = min(pause * 2, longest)
            else:
                return

    async def _run_containers(self) -> None:
        pause = _STATUS_RETRY[0]
        state = self._state
        while True:
            state.changed.clear()
            plan = make_plan(state.pod, state.containers, self._clock.monotonic())
            if plan.finished:
                return
            for name in plan.start:
                await self._containers.start(state.records[name])
            written = await self._status.publish()
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
                await self._state.changed.wait()
        self._state.changed.clear()

    # The end

    async def _terminate(self) -> None:
        state = self._state
        state.stopping = True
        await self._adopt_orphans()
        await self._containers.monitor.stop()
        if not self._stop.is_set():
            # The pod has run its course; only sidecars can still be there.
            self._grace.limit(state.own_grace_seconds)
        ending = asyncio.ensure_future(self._containers.end_all(self._grace))
        try:
            await self._status.publish()
            await ending
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        faults = self._context.faults
        faults.reach("agent:containers-stopped")
        await self._unprepare()
        faults.reach("agent:claims-unprepared")
        await self._publish_until_written(lambda: self._status.publish(final=True))
        faults.reach("agent:final-status-written")
        for record in state.containers:
            if record.current is not None:
                await self._context.runtime.remove(record.current.id)
        faults.reach("agent:containers-removed")
        if state.directories is not None:
            state.directories.remove_home()

    async def _adopt_orphans(self) -> None:
        """Containers that an earlier agent left, when the pod ended before this one looked at them."""
        for found in self._found:
            record = self._state.records.get(found.name)
            if record is None:
                await self._context.runtime.signal(found.id, 9)
                await self._context.runtime.remove(found.id)
            elif record.current is None:
                record.current, record.attempt = found, found.attempt

    async def _unprepare(self) -> None:
        uid = self.pod.metadata.uid
        while True:
            try:
                await self._context.claims.unprepare(uid)
            except UnprepareError as error:
                _LOG.warning("pod %s: %s", identity_of(self.pod), error)
                seconds = self._context.config.unprepare_retry
                # A driver that registers again ends the pause.
                await self._pause(seconds * (1 + 0.5 * self._context.random.random()))
            else:
                return

    async def _publish_until_written(self, publish: Callable[[], Awaitable[bool]]) -> None:
        pause = _STATUS_RETRY[0]
        while not self._state.gone.is_set() and not await publish():
            await self._pause(pause)
            pause = min(pause * 2, _STATUS_RETRY[1])

    async def _wait_for_deletion(self) -> None:
        """The pod is over. Its object stays until somebody deletes it; then say that nothing holds it any more."""
        pause = _STATUS_RETRY[0]
        while not self._state.gone.is_set():
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
        if self._state.directories is not None:
            self._state.directories.remove_all()

    def _record(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._context.recorder.record(self.pod, type_, reason, message)
