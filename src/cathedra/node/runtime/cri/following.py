"""Detection of ended containers, by events of the runtime and by polling, and rotation of their logs.

As the kubelet does: containers are listed every second, or every five minutes if the runtime has events (containerd
from 1.7 on, CRI-O). An event only triggers a listing, so a lost event costs time and nothing else. A log that is too
large is renamed, and the runtime is called to open another (docs/spec/node.md §17.10).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from cathedra._proto import cri_v1_pb2 as api
from cathedra.clock import Clock
from cathedra.node.concurrency import Wakeup
from cathedra.node.runtime.cri.configuration import CONTAINER_NAME, LOG, NODE, pod_of
from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError
from cathedra.node.runtime.runtime import LOST_MESSAGE, LOST_REASON, ContainerRun
from cathedra.node.shim.streams import ROTATE_BYTES, rotate_files

LOOK_SECONDS: Final = 1.0
EVENTED_SECONDS: Final = 300.0
_RECONNECT_SECONDS: Final = 5.0
_NANO: Final = 1e9
_LOG = logging.getLogger(__name__)


def run_of(status: Any) -> ContainerRun:
    """Return a container as its status describes it."""
    ended = status.state in (api.CONTAINER_EXITED, api.CONTAINER_UNKNOWN)
    run = ContainerRun(
        id=status.id,
        pod=pod_of(status.labels),
        name=status.labels.get(CONTAINER_NAME, status.metadata.name),
        attempt=status.metadata.attempt,
        started_at=(status.started_at or status.created_at) / _NANO,
        image=status.image.image,
        image_id=status.image_ref,
    )
    if not ended:
        return run
    return replace(
        run,
        finished_at=(status.finished_at or status.created_at) / _NANO,
        exit_code=status.exit_code,
        reason=status.reason or ("Completed" if status.exit_code == 0 else "Error"),
        message=status.message,
    )


class ContainerFollower:
    """Follows the running containers with ``label``; ``ended`` is called once for each end."""

    def __init__(
        self,
        endpoint: CRIEndpoint,
        label: str,
        *,
        clock: Clock,
        ended: Callable[[ContainerRun], None],
        also: Callable[[], Awaitable[None]],
    ) -> None:
        """``also`` is done after each look, and may raise `CRIError`."""
        self._endpoint = endpoint
        self._label = label
        self._clock = clock
        self._ended = ended
        self._also = also
        self._running: dict[str, ContainerRun] = {}
        self._wakeup = Wakeup()
        self._evented = False
        self._answers = True

    @property
    def running(self) -> Mapping[str, ContainerRun]:
        """The containers that are followed, by ID."""
        return self._running

    def add(self, run: ContainerRun) -> None:
        """Follow a container from now on; containers are listed soon."""
        self._running[run.id] = run
        self._wakeup.notify()

    def forget(self, container_id: str) -> None:
        """Stop reporting the end of a container, which is being removed."""
        self._running.pop(container_id, None)

    def list_soon(self) -> None:
        """List containers soon: something has probably ended."""
        self._wakeup.notify()

    async def containers(self) -> list[Any]:
        """Return all containers of the node.

        Raises:
            CRIError: the call failed.
        """
        selector = api.ContainerFilter(label_selector={NODE: self._label})
        answer = await self._endpoint.call("ListContainers", api.ListContainersRequest(filter=selector))
        return list(answer.containers)

    async def status(self, container_id: str) -> Any:
        """Return the status message of one container.

        Raises:
            CRIError: it does not exist, or the call failed.
        """
        request = api.ContainerStatusRequest(container_id=container_id)
        return (await self._endpoint.call("ContainerStatus", request)).status

    async def run(self) -> None:
        """Poll and receive events until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_events())
            while True:
                # Cleared before listing: an event during the listing must cause another one.
                self._wakeup.clear()
                await self._look()
                await self._wakeup.wait(EVENTED_SECONDS if self._evented else LOOK_SECONDS)

    async def _follow_events(self) -> None:
        while True:
            try:
                async for _ in self._endpoint.events():
                    self._evented = True
                    self._wakeup.notify()
            except CRIError as error:
                if error.code == "Unimplemented":
                    return
                _LOG.info("no events from the container runtime: %s", error)
            self._evented = False
            self._wakeup.notify()
            await self._clock.sleep(_RECONNECT_SECONDS)

    async def _look(self) -> None:
        # Those that are added while the runtime answers are not in its answer.
        followed = dict(self._running)
        try:
            states = {container.id: container.state for container in await self.containers()}
            for run in followed.values():
                await self._look_at(run, states.get(run.id))
            await self._also()
        except CRIError as error:
            if self._answers:
                _LOG.warning("the container runtime at %s does not answer: %s", self._endpoint.endpoint, error)
            self._answers = False
            return
        if not self._answers:
            _LOG.warning("the container runtime at %s answers again", self._endpoint.endpoint)
        self._answers = True

    async def _look_at(self, run: ContainerRun, state: int | None) -> None:
        if state in (api.CONTAINER_RUNNING, api.CONTAINER_CREATED) or run.id not in self._running:
            return
        if state == api.CONTAINER_EXITED:
            self._end(run_of(await self.status(run.id)))
            return
        if state == api.CONTAINER_UNKNOWN:
            await self._endpoint.call("StopContainer", api.StopContainerRequest(container_id=run.id, timeout=0))
        now = self._clock.now()
        self._end(replace(run, finished_at=now, exit_code=137, reason=LOST_REASON, message=LOST_MESSAGE))

    def _end(self, run: ContainerRun) -> None:
        if self._running.pop(run.id, None) is not None:
            self._ended(run)


class LogRotation:
    """Rotates the logs of running containers."""

    def __init__(self, endpoint: CRIEndpoint) -> None:
        self._endpoint = endpoint

    async def look(self, containers: Iterable[Any]) -> None:
        """Rotate those logs of running containers that have grown too large."""
        for container in containers:
            path = container.annotations.get(LOG, "")
            if container.state != api.CONTAINER_RUNNING or not path:
                continue
            if await asyncio.to_thread(_rotated, Path(path)):
                await self._reopen(container.id)

    async def _reopen(self, container_id: str) -> None:
        # It may have ended meanwhile; then nothing more is written.
        with contextlib.suppress(CRIError):
            request = api.ReopenContainerLogRequest(container_id=container_id)
            await self._endpoint.call("ReopenContainerLog", request)


def _rotated(file: Path) -> bool:
    with contextlib.suppress(OSError):
        if file.stat().st_size >= ROTATE_BYTES:
            rotate_files(file)
            return True
    return False
