"""Nodes that only pretend: a pod that is bound runs at once, and one that is deleted is gone at once.

A pod runs until it is deleted, unless its annotations say for how long (`cathedra.node.runtime.simulated`).
"""

from __future__ import annotations

import asyncio
import contextlib

from cathedra.api.core.core_v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS
from cathedra.clock import Clock
from cathedra.node.runtime.simulated import RUN_SECONDS
from cathedra.semantics.pods import is_terminal

__all__ = ["PretendingNodes"]

_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


class PretendingNodes:
    """The kubelets of all nodes. `run` until cancelled."""

    def __init__(self, client: Client, informers: SharedInformers, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pods = informers.of(PODS)
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._queued: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Follow pods until cancelled."""
        self._pods.add_handler(self._note, lambda _, pod: self._note(pod))
        async with asyncio.TaskGroup() as group:
            while True:
                key = await self._queue.get()
                self._queued.discard(key)
                pod = self._pods.store.get(*key)
                if pod is None:
                    continue
                with contextlib.suppress(StatusError):  # it has changed meanwhile, and comes again
                    if pod.metadata.deletion_timestamp is not None:
                        await self._end(pod)
                    elif pod.status.phase in ("", "Pending"):
                        await self._start(pod)
                        seconds = pod.metadata.annotations.get(RUN_SECONDS)
                        if seconds is not None:
                            group.create_task(self._finish(pod, float(seconds)))

    def _note(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        concerned = pod.spec.node_name and (
            pod.metadata.deletion_timestamp is not None or pod.status.phase in ("", "Pending")
        )
        if concerned and key not in self._queued:
            self._queued.add(key)
            self._queue.put_nowait(key)

    async def _end(self, pod: Pod) -> None:
        pods = self._client.resource(PODS, pod.metadata.namespace)
        await pods.delete(pod.metadata.name, grace_period_seconds=0, uid=pod.metadata.uid)

    async def _start(self, pod: Pod) -> None:
        now = Time(self._clock.now())
        others = tuple(one for one in pod.status.conditions if one.type not in _CONDITIONS)
        conditions = tuple(PodCondition(type=name, status="True", last_transition_time=now) for name in _CONDITIONS)
        containers = tuple(
            ContainerStatus(
                name=one.name,
                ready=True,
                started=True,
                state=ContainerState(running=ContainerStateRunning(started_at=now)),
            )
            for one in pod.spec.containers
        )
        await self._write(
            pod,
            replace(
                pod.status,
                phase="Running",
                start_time=now,
                conditions=(*others, *conditions),
                container_statuses=containers,
            ),
        )

    async def _finish(self, pod: Pod, seconds: float) -> None:
        await self._clock.sleep(seconds)
        known = self._pods.store.get(pod.metadata.namespace, pod.metadata.name)
        if known is None or known.metadata.uid != pod.metadata.uid or is_terminal(known):
            return
        with contextlib.suppress(StatusError):  # it was deleted in this moment
            await self._write(known, replace(known.status, phase="Succeeded"))

    async def _write(self, pod: Pod, status: PodStatus) -> None:
        await self._client.resource(PODS, pod.metadata.namespace).update_status(replace(pod, status=status))
