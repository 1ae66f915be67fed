"""Every pod bound to this node has a worker; what happens is handed to the right one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from cathedra.api.core.core_v1 import Pod
from cathedra.client.informer import Informer
from cathedra.node.pods.admission import PodAdmission, Rejection
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import ContainerRun

__all__ = ["InformerPods", "PodManager", "PodSource", "SharedPods"]

_CRASH_PAUSE: Final = 10.0
_LOG = logging.getLogger(__name__)


class PodSource(Protocol):
    """Where a node learns of its pods."""

    def follow(self, on_change: Callable[[Pod], None], on_delete: Callable[[Pod], None]) -> Callable[[], None]:
        """Hear of every pod of the node, those that are there at once; answers how to stop."""
        ...

    async def wait_synced(self) -> None:
        """Wait until the pods that are there have been reported."""
        ...


class InformerPods:
    """The pods of an informer that only follows this node's."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._followed = True

    def follow(self, on_change: Callable[[Pod], None], on_delete: Callable[[Pod], None]) -> Callable[[], None]:
        """Hear of every pod; the handlers live as long as the informer, and are deaf after the end."""
        self._informer.add_handler(
            on_add=lambda pod: on_change(pod) if self._followed else None,
            on_update=lambda _, pod: on_change(pod) if self._followed else None,
            on_delete=lambda pod: on_delete(pod) if self._followed else None,
        )

        def stop() -> None:
            self._followed = False

        return stop

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._informer.wait_synced()


class SharedPods:
    """One informer on all pods, for thousands of nodes in one process: each event reaches only the node it is about."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._nodes: dict[str, tuple[Callable[[Pod], None], Callable[[Pod], None]]] = {}
        informer.store.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        informer.add_handler(on_add=self._changed, on_update=lambda _, pod: self._changed(pod), on_delete=self._deleted)

    def _changed(self, pod: Pod) -> None:
        node = self._nodes.get(pod.spec.node_name)
        if node is not None:
            node[0](pod)

    def _deleted(self, pod: Pod) -> None:
        node = self._nodes.get(pod.spec.node_name)
        if node is not None:
            node[1](pod)

    def of(self, node_name: str) -> PodSource:
        """The pods of one node."""
        return _NodePods(self, node_name)

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._informer.wait_synced()

    def enter(self, node: str, on_change: Callable[[Pod], None], on_delete: Callable[[Pod], None]) -> None:
        """Report the pods of ``node`` from now on, and those that are there at once."""
        self._nodes[node] = (on_change, on_delete)
        for pod in tuple(self._informer.store.by_index("node", node)):
            on_change(pod)

    def leave(self, node: str) -> None:
        """Report nothing more to ``node``."""
        self._nodes.pop(node, None)


class _NodePods:
    def __init__(self, shared: SharedPods, node: str) -> None:
        self._shared = shared
        self._node = node

    def follow(self, on_change: Callable[[Pod], None], on_delete: Callable[[Pod], None]) -> Callable[[], None]:
        self._shared.enter(self._node, on_change, on_delete)
        return lambda: self._shared.leave(self._node)

    async def wait_synced(self) -> None:
        await self._shared.wait_synced()


class PodManager:
    """Workers by pod UID."""

    def __init__(self, context: PodContext, source: PodSource) -> None:
        self._context = context
        self._admission = PodAdmission(context.client, context.config.name, context.gates)
        self._source = source
        self._workers: dict[str, PodWorker] = {}
        self._group: asyncio.TaskGroup | None = None
        self._found: dict[str, list[ContainerRun]] = {}

    async def run(self, found: Iterable[ContainerRun]) -> None:
        """Run the node's pods until cancelled; ``found`` are containers that an earlier agent left."""
        for state in found:
            self._found.setdefault(state.pod.uid, []).append(state)
        stop: Callable[[], None] | None = None
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                stop = self._source.follow(self._changed, self._deleted)
                await self._source.wait_synced()
                for uid in tuple(self._found):
                    group.create_task(self._end_orphans(self._found.pop(uid)))
                await asyncio.get_running_loop().create_future()
            finally:
                if stop is not None:
                    stop()
                self._group = None

    async def _end_orphans(self, states: Iterable[ContainerRun]) -> None:
        """Containers of pods that are no more."""
        for state in states:
            await self._context.runtime.signal(state.id, 9)
            await self._context.runtime.remove(state.id)

    def container_ended(self, state: ContainerRun) -> None:
        """The runtime says that a container has ended."""
        worker = self._workers.get(state.pod.uid)
        if worker is not None:
            worker.container_ended(state)

    def retry_all(self) -> None:
        """Something that pods may be waiting for, as a driver, is there now."""
        for worker in self._workers.values():
            worker.look_again()

    def look_again(self, pod_uids: Iterable[str]) -> None:
        """Something that these pods' statuses show has changed."""
        for uid in pod_uids:
            worker = self._workers.get(uid)
            if worker is not None:
                worker.look_again()

    def workers(self) -> tuple[PodWorker, ...]:
        """All workers, in order of arrival."""
        return tuple(self._workers.values())

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod; of two with one name the later."""
        for worker in reversed(self._workers.values()):
            if (worker.pod.metadata.namespace, worker.pod.metadata.name) == (namespace, name):
                return worker
        return None

    def active(self) -> set[str]:
        """UIDs of pods that are not over."""
        return {uid for uid, worker in self._workers.items() if not worker.over}

    def _changed(self, pod: Pod) -> None:
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.update(pod)
        elif self._group is not None and pod.spec.node_name == self._context.config.name:
            worker = PodWorker(pod, self._context, self._found.pop(pod.metadata.uid, ()), admit=self._admit)
            self._workers[pod.metadata.uid] = worker
            self._group.create_task(self._work(pod.metadata.uid, worker))

    async def _admit(self, pod: Pod) -> Rejection | None:
        return await self._admission.check(pod, lambda: self._before(pod.metadata.uid))

    def _before(self, uid: str) -> Iterator[Pod]:
        """The pods whose room a new one has to leave them: those that came earlier, and those that ran already."""
        earlier = True
        for other, worker in self._workers.items():
            if other == uid:
                earlier = False
            elif worker.counts and (earlier or not worker.new):
                yield worker.pod

    def _deleted(self, pod: Pod) -> None:
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.vanished()

    async def _work(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # A fault in one pod must not take the node's other pods with it; it is told with all it has.
            _LOG.exception("pod %s/%s: its worker failed", worker.pod.metadata.namespace, worker.pod.metadata.name)
            await self._context.clock.sleep(_CRASH_PAUSE)
        finally:
            if self._workers.get(uid) is worker:
                del self._workers[uid]
