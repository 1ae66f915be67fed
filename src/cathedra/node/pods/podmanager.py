"""The workers of a node's pods: one for each pod that is bound to it.

Where a node learns of its pods: a protocol, and an informer as one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from cathedra.api.core.core_v1 import Pod
from cathedra.api.undecodable import Undecodable
from cathedra.client.backoff import DoublingPauses
from cathedra.client.informer import Informer
from cathedra.node.deviceplugins.manager import DevicesUnavailable
from cathedra.node.metrics import PodCounts
from cathedra.node.pods.admission import PodAdmission, Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.resizer import Neighbours
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import ContainerRun

_RETRY: Final = (1.0, 30.0)
"""First and longest pause, in seconds, before a worker that failed is replaced."""
_LOG = logging.getLogger(__name__)


class PodManager:
    """Workers by pod UID."""

    def __init__(self, context: PodContext, source: PodSource) -> None:
        self._context = context
        self._admission = PodAdmission(context.client, context.config.name, context.gates)
        self._source = source
        self._workers: dict[str, PodWorker] = {}
        self._group: asyncio.TaskGroup | None = None
        self._found: dict[str, list[ContainerRun]] = {}
        self._orphaned: set[str] = set()
        """UIDs of pods that no longer exist and whose containers are being ended."""
        self._synced = False
        """True if every pod that is bound to the node has its worker."""
        self._ended: dict[str, ContainerRun] = {}
        """Runs that ended before their pods had workers, by ID."""
        self._undecodable: set[str] = set()
        """UIDs of pods of this node that exist and cannot be decoded: nothing of them may be taken for left over."""

    async def run(self, found: Iterable[ContainerRun]) -> None:
        """Run the node's pods until cancelled; ``found`` are containers that an earlier agent left."""
        for run in found:
            self._found.setdefault(run.pod.uid, []).append(run)
        stop: Callable[[], None] | None = None
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                # The handlers are registered inside the group: the first pods need it to start their workers.
                stop = self._source.follow(
                    self._changed, self._deleted, self._became_undecodable, self._became_decodable
                )
                await self._source.wait_synced()
                self._synced = True
                self._forget_ended()
                # Only after the first complete list: until then a container without a pod may belong to a pod that is
                # still to come.
                self._remove_leftovers(group, self._found.keys() - self._undecodable)
                # Never set: the manager runs until its task is cancelled.
                await asyncio.get_running_loop().create_future()
            finally:
                if stop is not None:
                    stop()
                # Events that arrive during the shutdown find no group, and start no workers that nothing would await.
                self._group = None

    def _remove_leftovers(self, group: asyncio.TaskGroup, uids: Iterable[str]) -> None:
        """Remove containers and sandboxes that an earlier agent left of pods that no longer exist."""
        for uid in uids:
            runs = self._found.pop(uid, [])
            self._orphaned.add(uid)
            group.create_task(self._retried(f"containers of pod {uid}", partial(self._end_orphans, uid, runs)))
        group.create_task(self._retried("sandboxes of pods that are gone", self._remove_sandboxes))

    async def _retried(self, what: str, remove: Callable[[], Awaitable[None]]) -> None:
        """Call ``remove`` until it succeeds: what an earlier agent left must not keep this one from running pods."""
        pauses = DoublingPauses(*_RETRY)
        while True:
            try:
                return await remove()
            except Exception:
                pause = pauses.take()
                _LOG.exception("%s: not removed; will try again in %g s", what, pause)
            await self._context.clock.sleep(pause)

    async def _end_orphans(self, uid: str, runs: Iterable[ContainerRun]) -> None:
        """Kill and remove containers of a pod that no longer exists, then let its claims be unprepared."""
        for run in runs:
            await self._context.runtime.signal(run.id, signal.SIGKILL)
            await self._context.runtime.remove(run.id)
        self._orphaned.discard(uid)
        self._context.claims.look_again()

    async def _remove_sandboxes(self) -> None:
        """Remove sandboxes of pods that no longer exist."""
        sandboxes = self._context.runtime.sandboxes
        if sandboxes is None:
            return
        for pod in await sandboxes.pods():
            if pod.uid not in self._workers and pod.uid not in self._undecodable:
                await sandboxes.remove(pod.uid)

    def container_ended(self, run: ContainerRun) -> None:
        """Handle the end of a container, reported by the runtime."""
        worker = self._workers.get(run.pod.uid)
        if worker is not None:
            worker.container_ended(run)
        # Kept for the worker that is still to come: without it the container would count as running for ever.
        elif not self._synced or run.pod.uid in self._undecodable:
            self._ended[run.id] = run

    def retry_all(self) -> None:
        """Let all pods retry at once: a driver has registered."""
        for worker in self._workers.values():
            worker.look_again()

    def look_again(self, pod_uids: Iterable[str]) -> None:
        """Let these pods write their statuses: something shown there has changed."""
        for uid in pod_uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.look_again()

    def workers(self) -> tuple[PodWorker, ...]:
        """Return all workers, in order of arrival."""
        return tuple(self._workers.values())

    def counts(self) -> PodCounts:
        """Return the numbers of pods and containers, for the agent's metrics."""
        workers = self.workers()
        records = [record for worker in workers for record in worker.records]
        return PodCounts(
            desired=len(workers),
            active=sum(worker.counts for worker in workers),
            running=sum(any(record.running for record in worker.records) for worker in workers),
            running_containers=sum(record.running for record in records),
            exited_containers=sum(record.ended is not None for record in records),
            ephemeral_containers=sum(record.ephemeral for record in records),
        )

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """Return the worker of a pod; of two with one name the later."""
        # A pod that still ends and its successor may have the same name.
        for worker in reversed(self._workers.values()):
            if (worker.pod.metadata.namespace, worker.pod.metadata.name) == (namespace, name):
                return worker
        return None

    def active(self) -> set[str]:
        """Return UIDs of pods that are not over, as far as is known."""
        # A pod that cannot be decoded may still use its claims, and so do containers that an earlier agent left until
        # they have ended; their claims must not be unprepared.
        unknown = (self._undecodable | self._found.keys() | self._orphaned) - self._workers.keys()
        return unknown | {uid for uid, worker in self._workers.items() if not worker.over}

    def _changed(self, pod: Pod) -> None:
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.update(pod)
        elif self._group is not None and pod.spec.node_name == self._context.config.name:
            uid = pod.metadata.uid
            # An end that was reported before the worker existed replaces the run as it was listed.
            worker = self._worker(pod, [self._ended.pop(run.id, run) for run in self._found.pop(uid, ())])
            # Entered before the task runs: an end of a container that is reported in this turn must find the worker.
            self._workers[uid] = worker
            self._group.create_task(self._work(uid, worker))

    def _worker(self, pod: Pod, found: Sequence[ContainerRun]) -> PodWorker:
        uid = pod.metadata.uid
        return PodWorker(
            pod, self._context, found, admit=self._admit, neighbours=Neighbours(lambda: self._beside(uid), self._freed)
        )

    async def _admit(self, pod: Pod) -> Rejection | None:
        rejection = await self._admission.check(pod, lambda: self._before(pod.metadata.uid))
        if rejection is not None or self._context.devices is None:
            return rejection
        try:
            await self._context.devices.admit(pod)
        except DevicesUnavailable as error:
            return Rejection("UnexpectedAdmissionError", str(error))
        return None

    def _before(self, uid: str) -> Iterator[Pod]:
        """Yield the pods whose resources a new pod cannot use: earlier pods, and those that ran already."""
        earlier = True
        for other, worker in self._workers.items():
            if other == uid:
                earlier = False
            elif worker.counts and (earlier or not worker.new):
                # Granted and not requested amounts: a resize that was postponed must not take room from other pods.
                yield worker.granted

    def _beside(self, uid: str) -> Iterator[Pod]:
        """Yield the pods that use resources of the node beside one."""
        for other, worker in self._workers.items():
            if other != uid and worker.counts:
                yield worker.granted

    def _freed(self) -> None:
        """Let pods that wait for resources try again: another pod uses less of the node."""
        for worker in self._workers.values():
            # All others would only compute and write an unchanged status.
            if worker.waits_for_room:
                worker.look_again()

    def _deleted(self, pod: Pod) -> None:
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.vanished()

    def _became_undecodable(self, what: Undecodable) -> None:
        """Handle a pod that cannot be decoded: what runs goes on, and what an earlier agent left waits."""
        self._undecodable.add(what.uid)
        worker = self._workers.get(what.uid)
        if worker is not None:
            worker.update_undecodable(what)

    def _became_decodable(self, what: Undecodable, pod: Pod | None) -> None:
        """Handle a pod that could not be decoded: it can be now and is reported next, or it has gone (None)."""
        self._undecodable.discard(what.uid)
        if pod is not None:
            return
        worker = self._workers.get(what.uid)
        if worker is not None:
            worker.vanished()
        elif self._group is not None and self._synced:
            self._remove_leftovers(self._group, (what.uid,))
            self._forget_ended()

    def _forget_ended(self) -> None:
        """Forget ends of containers whose pods have workers or no longer exist."""
        for run in tuple(self._ended.values()):
            if run.pod.uid not in self._undecodable:
                del self._ended[run.id]

    async def _work(self, uid: str, worker: PodWorker) -> None:
        """Run a pod's worker until the pod is gone, with a new worker after each failure."""
        pauses = DoublingPauses(*_RETRY)
        try:
            while not await self._survived(worker):
                # The failed worker stays in the table: a deletion or the end of a container is not lost meanwhile.
                await self._context.clock.sleep(pauses.take())
                worker = self._workers[uid] = self._successor(worker)
        finally:
            del self._workers[uid]

    async def _survived(self, worker: PodWorker) -> bool:
        """Run a worker. Return False if it failed, which it must not take the node's other pods with it for."""
        try:
            await worker.run()
        except Exception:
            name = f"{worker.pod.metadata.namespace}/{worker.pod.metadata.name}"
            _LOG.exception("pod %s: its worker failed and will be replaced", name)
            return False
        return True

    def _successor(self, failed: PodWorker) -> PodWorker:
        """Return a worker that continues as an agent does after a restart: with the object and the containers found."""
        worker = self._worker(failed.pod, failed.runs)
        # The deletion was reported to the failed worker only, and will not be reported again.
        if failed.gone:
            worker.vanished()
        return worker


class PodSource(Protocol):
    """Source of the pods of a node."""

    def follow(
        self,
        on_change: Callable[[Pod], None],
        on_delete: Callable[[Pod], None],
        on_undecodable: Callable[[Undecodable], None],
        on_resolved: Callable[[Undecodable, Pod | None], None],
    ) -> Callable[[], None]:
        """Report every pod of the node, existing ones at once. Return the function that stops this.

        A pod whose current version cannot be decoded is reported as such, not as deleted; and later as decodable again,
        or as deleted (`cathedra.client.informer.Handler`).
        """

    async def wait_synced(self) -> None:
        """Wait until the existing pods have been reported."""


class InformerPods:
    """The pods of an informer that only follows this node's."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._followed = True

    def follow(
        self,
        on_change: Callable[[Pod], None],
        on_delete: Callable[[Pod], None],
        on_undecodable: Callable[[Undecodable], None],
        on_resolved: Callable[[Undecodable, Pod | None], None],
    ) -> Callable[[], None]:
        """Report every pod. Handlers stay registered in the informer; after the end they do nothing."""
        self._informer.add_handler(
            on_add=lambda pod: on_change(pod) if self._followed else None,
            on_update=lambda _, pod: on_change(pod) if self._followed else None,
            on_delete=lambda pod: on_delete(pod) if self._followed else None,
            on_undecodable=lambda what: on_undecodable(what) if self._followed else None,
            on_resolved=lambda what, pod: on_resolved(what, pod) if self._followed else None,
        )

        # Informers have no way to remove a handler, and they outlive an agent that is restarted in one process.
        def stop() -> None:
            self._followed = False

        return stop

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._informer.wait_synced()
