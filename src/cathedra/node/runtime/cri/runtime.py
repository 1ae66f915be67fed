"""Containers by a container runtime behind its socket, as a `Runtime` of the node agent.

docs/spec/node.md §18. What the runtime holds outlives the agent by itself, so there is no shim: an agent that comes
back lists what carries its label. What was created and never started is removed then, because nothing ran of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from cathedra._proto import cri_v1_pb2 as api
from cathedra.cdi.spec import CDIError
from cathedra.clock import Clock
from cathedra.node.concurrency import BlockTasks
from cathedra.node.runtime.command import MAX_OUTPUT
from cathedra.node.runtime.cri.configuration import (
    STREAMS,
    DeviceEdits,
    cgroup_parent,
    container_config,
    directory_label,
    limit_resources,
    resolve_devices,
    with_user,
)
from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError, CRIFeatures, CRIImages
from cathedra.node.runtime.cri.following import ContainerFollower, LogRotation, run_of
from cathedra.node.runtime.cri.sandboxes import CRISandboxes, Sandbox, pinned, release
from cathedra.node.runtime.cri.streaming import streamed
from cathedra.node.runtime.runtime import (
    ContainerRun,
    ContainerSpec,
    ContainerUsage,
    ExecProcess,
    ResourceLimits,
    RuntimeFailure,
    UnusableRuntime,
)

ROTATE_SECONDS: Final = 10.0
STATUS_SECONDS: Final = 10.0
"""Time limit of a status call."""
_LONG: Final = 365 * 24 * 3600
"""Grace period that is passed to the runtime, in seconds: the agent itself limits the pod's."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_LOG = logging.getLogger(__name__)


class CRIRuntime:
    """A `Runtime` of containers at ``endpoint``, for the node that works in ``directory``."""

    def __init__(
        self,
        endpoint: CRIEndpoint,
        features: CRIFeatures,
        directory: Path,
        cdi_directories: Sequence[Path],
        *,
        clock: Clock,
    ) -> None:
        self._endpoint = endpoint
        self._features = features
        self._directory = directory
        self._cdi_directories = tuple(cdi_directories)
        self._clock = clock
        self._label = directory_label(directory)
        self._cgroup = cgroup_parent(self._label, systemd=features.systemd_cgroups)
        self.images = CRIImages(endpoint)
        self.sandboxes = CRISandboxes(endpoint, self._label, self._cgroup, pod_networks=features.pod_networks)
        self._follower = ContainerFollower(
            endpoint, self._label, clock=clock, ended=self._ended, also=self._end_pods_without_sandbox
        )
        self._rotation = LogRotation(endpoint)
        self._stopping = BlockTasks()
        self._on_exit: Callable[[ContainerRun], None] = lambda _: None

    @property
    def name(self) -> str:
        """The runtime's name, with which container IDs begin."""
        return self._features.name

    @property
    def version(self) -> str:
        """Return the version that the runtime reports."""
        return self._features.version

    @property
    def cgroup(self) -> str:
        """Empty: the runtime divides the pod's resources itself."""
        return ""

    # The node

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Return the containers that an earlier agent of this node left.

        Raises:
            UnusableRuntime: the runtime does not answer.
        """
        self._on_exit = on_exit
        try:
            return await self._found()
        except CRIError as error:
            raise UnusableRuntime(self.name, str(error)) from error

    async def _found(self) -> tuple[ContainerRun, ...]:
        runs: list[ContainerRun] = []
        for container in await self._follower.containers():
            if container.state == api.CONTAINER_CREATED:
                await self.remove(container.id)
                continue
            run = run_of(await self._follower.status(container.id))
            runs.append(run)
            if run.running:
                self._follower.add(run)
        return tuple(runs)

    async def supervise(self) -> None:
        """Notice the ends of containers, and rotate their logs, until cancelled."""
        async with self._stopping, asyncio.TaskGroup() as group:
            group.create_task(self._follower.run())
            group.create_task(self._rotate_logs())

    async def _rotate_logs(self) -> None:
        while True:
            await self._clock.sleep(ROTATE_SECONDS)
            with contextlib.suppress(CRIError):  # the follower reports it
                await self._rotation.look(await self._follower.containers())

    def _ended(self, run: ContainerRun) -> None:
        self._on_exit(run)

    async def _end_pods_without_sandbox(self) -> None:
        """Containers do not outlive their sandbox, whose namespaces they share; started again, they get another."""
        lost = await self.sandboxes.unready()
        for run in tuple(self._follower.running.values()):
            if run.pod.uid in lost:
                await self._stop(run.id, 0)

    async def status(self) -> tuple[str, ...]:
        """Return the conditions of the runtime that do not hold.

        Pods share the node's network where the runtime had no network for them at the start; then it is not missed.

        Raises:
            RuntimeFailure: the runtime does not answer.
        """
        try:
            answer = await self._endpoint.call("Status", api.StatusRequest(), seconds=STATUS_SECONDS)
        except CRIError as error:
            raise RuntimeFailure("RuntimeNotReady", error.description) from error
        needed = {"RuntimeReady": "container runtime not ready"}
        if self._features.pod_networks:
            needed["NetworkReady"] = "container runtime network not ready"
        return tuple(
            f"{needed[one.type]}: {one.type}=false reason:{one.reason} message:{one.message}"
            for one in answer.status.conditions
            if one.type in needed and not one.status
        )

    # Containers

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Create and start a container in its pod's sandbox.

        Raises:
            RuntimeFailure: CreateContainerConfigError, CreateContainerError, RunContainerError; nothing is left of it.
        """
        sandbox = self.sandboxes.of(spec.pod.uid)
        if sandbox is None:
            raise RuntimeFailure("CreateContainerError", f"pod {spec.pod} has no sandbox")
        spec = await with_user(spec, self.images)
        created, edits = await self._create(spec, sandbox)
        try:
            await self._endpoint.call("StartContainer", api.StartContainerRequest(container_id=created))
            run = run_of(await self._follower.status(created))
        except CRIError as error:
            await self.remove(created)
            raise RuntimeFailure("RunContainerError", error.description) from error
        finally:
            # What is mounted in the container stays mounted in it.
            await asyncio.to_thread(release, self._directory, spec)
        # If it has ended already, the next listing reports that.
        run = replace(run, finished_at=None, exit_code=None, reason="", message="")
        self._follower.add(run)
        return replace(run, warnings=tuple(_warnings(spec, edits)))

    async def _create(self, spec: ContainerSpec, sandbox: Sandbox) -> tuple[str, DeviceEdits]:
        try:
            edits = resolve_devices(spec.cdi_devices, self._features.cdi_directories, self._cdi_directories)
            mounted = await asyncio.to_thread(pinned, self._directory, spec)
            config = container_config(mounted, sandbox.spec, edits, self._label)
            request = api.CreateContainerRequest(
                pod_sandbox_id=sandbox.id, config=config, sandbox_config=sandbox.config
            )
            answer = await self._endpoint.call("CreateContainer", request)
        except CDIError as error:
            raise RuntimeFailure("CreateContainerError", f"CDI device injection failed: {error}") from error
        except CRIError as error:
            raise RuntimeFailure("CreateContainerError", error.description) from error
        except OSError as error:
            raise RuntimeFailure("CreateContainerError", str(error)) from error
        return answer.container_id, edits

    async def update(self, container_id: str, limits: ResourceLimits) -> None:
        """Change the container's limits.

        Raises:
            RuntimeFailure: the runtime refuses, or the call failed.
        """
        request = api.UpdateContainerResourcesRequest(container_id=container_id, linux=limit_resources(limits))
        try:
            await self._endpoint.call("UpdateContainerResources", request)
        except CRIError as error:
            raise RuntimeFailure("UpdateContainerError", error.description) from error

    async def signal(self, container_id: str, number: int) -> None:
        """Kill the container, or stop it with the signal that the runtime has for it.

        CRI has no other signals. The stop call is abandoned when the agent ends, and the container is then not killed.
        """
        if number == signal.SIGKILL:
            await self._stop(container_id, 0)
            return
        with contextlib.suppress(RuntimeError):  # nothing is supervised any more
            self._stopping.start(self._stop(container_id, _LONG))

    async def _stop(self, container_id: str, seconds: int) -> None:
        request = api.StopContainerRequest(container_id=container_id, timeout=seconds)
        try:
            await self._endpoint.call("StopContainer", request, seconds=None if seconds else 120.0)
        except CRIError as error:
            if error.code != "NotFound":
                _LOG.warning("container %s cannot be stopped: %s", container_id, error)
        self._follower.list_soon()

    async def remove(self, container_id: str) -> None:
        """Remove a container; one that is not known is no error."""
        self._follower.forget(container_id)
        try:
            await self._endpoint.call("RemoveContainer", api.RemoveContainerRequest(container_id=container_id))
        except CRIError as error:
            if error.code != "NotFound":
                _LOG.warning("container %s cannot be removed: %s", container_id, error)

    # Streams

    async def exec(
        self, container_id: str, argv: tuple[str, ...], *, tty: bool = False, stdin: bool = False
    ) -> ExecProcess:
        """Run a command in a running container; one that cannot be executed exits with 126 or 127.

        Raises:
            RuntimeFailure: the container does not run, or the call failed.
        """
        request = api.ExecRequest(
            container_id=container_id, cmd=argv, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        url = await self._url("Exec", request)
        return await streamed(url, stdin=stdin, tty=tty, exits=True)

    async def exec_sync(self, container_id: str, argv: tuple[str, ...], seconds: float) -> tuple[int, bytes]:
        """Run a command to its end; the runtime kills it at the time limit.

        Raises:
            RuntimeFailure: the container does not run, or the call failed.
            TimeoutError: the command had not ended.
        """
        request = api.ExecSyncRequest(container_id=container_id, cmd=argv, timeout=max(1, round(seconds)))
        try:
            answer = await self._endpoint.call("ExecSync", request, seconds=seconds + 10.0)
        except CRIError as error:
            if error.code == "DeadlineExceeded":
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
            raise RuntimeFailure("ExecFailed", str(error)) from error
        return answer.exit_code, (answer.stdout + answer.stderr)[:MAX_OUTPUT]

    async def attach(self, container_id: str) -> ExecProcess:
        """Return input and output of a container's first process.

        Raises:
            RuntimeFailure: the container does not run, or the call failed.
        """
        try:
            streams = (await self._follower.status(container_id)).annotations.get(STREAMS, "").split(",")
        except CRIError as error:
            raise RuntimeFailure("NotFound", error.description) from error
        tty, stdin = "tty" in streams, "stdin" in streams
        request = api.AttachRequest(container_id=container_id, stdin=stdin, tty=tty, stdout=True, stderr=not tty)
        return await streamed(await self._url("Attach", request), stdin=stdin, tty=tty, exits=False)

    async def _url(self, method: str, request: Any) -> str:
        try:
            answer = await self._endpoint.call(method, request)
        except CRIError as error:
            raise RuntimeFailure("NotFound", error.description) from error
        url: str = answer.url
        return url

    # The end

    async def processes(self, container_ids: Collection[str]) -> frozenset[int]:
        """None: they are the runtime's business, which connects to ports by itself."""
        return frozenset()

    async def usage(self) -> Mapping[str, ContainerUsage]:
        """Return the runtime's counters for each container of this node."""
        try:
            answer = await self._endpoint.call("ListContainerStats", api.ListContainerStatsRequest())
        except CRIError as error:
            _LOG.warning("the container runtime gives no figures: %s", error)
            return {}
        return {
            one.attributes.id: ContainerUsage(one.cpu.usage_core_nano_seconds.value, one.memory.working_set_bytes.value)
            for one in answer.stats
            if one.attributes.id in self._follower.running
        }

    async def close(self, *, stop_containers: bool) -> None:
        """Hang up, or remove everything of this node."""
        self._on_exit = lambda _: None
        if stop_containers:
            for pod in await self.sandboxes.pods():
                await self.sandboxes.remove(pod.uid)
            await asyncio.to_thread(self._remove_cgroups)
        await self._endpoint.close()

    def _remove_cgroups(self) -> None:
        """Remove the cgroup that the runtime has made for this node, and leaves."""
        if self._features.systemd_cgroups:
            return
        name = self._cgroup.lstrip("/")
        for place in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")):
            with contextlib.suppress(OSError):
                place.rmdir()


def _warnings(spec: ContainerSpec, edits: DeviceEdits) -> list[str]:
    if not edits.left_out:
        return []
    devices = ", ".join(spec.cdi_devices)
    missing = ", ".join(edits.left_out)
    return [f"The container runtime resolves no CDI devices, so these of {devices} cannot be attached: {missing}"]
