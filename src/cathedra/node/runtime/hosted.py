"""Containers that really run: by crun or runc as OCI containers, or as plain processes.

Both kinds are held by a shim (see there), so an agent that comes back finds them again. What they have in common is
here; how a container is described to the shim is up to a `Launcher`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from cathedra.cdi.errors import CDIError
from cathedra.node.runtime.attached import AttachedProcess
from cathedra.node.runtime.command import Command
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, ExecProcess, PodIdentity, RuntimeFailure
from cathedra.node.shim.client import ShimClient, ShimLost

__all__ = ["HostedRuntime", "Launcher"]


class Launcher(Protocol):
    """How containers of one kind are described to the shim."""

    @property
    def name(self) -> str:
        """What container IDs begin with."""
        ...

    @property
    def version(self) -> str:
        """Its version."""
        ...

    @property
    def cgroup(self) -> str:
        """The cgroup that all its containers are below, or ""."""
        ...

    def describe(self, spec: ContainerSpec, directory: Path) -> dict[str, Any]:
        """The part of the shim's start request that is particular to the kind; files go to ``directory``.

        Raises:
            CDIError: a device cannot be resolved or injected.
        """
        ...

    def exec_command(
        self, directory: Path, container_id: str, shim_pid: int, argv: tuple[str, ...], *, tty: bool
    ) -> tuple[list[str], Mapping[str, str] | None, str]:
        """Command line, environment (None: this process's own) and directory of a command in a container."""
        ...


class HostedRuntime:
    """A `Runtime` of real containers below ``directory``."""

    def __init__(self, launcher: Launcher, directory: Path, *, orphan_seconds: float = 600.0) -> None:
        self._launcher = launcher
        self._directory = directory
        self._on_exit: Callable[[ContainerRun], None] = lambda _: None
        self._running: set[str] = set()
        self._shim = ShimClient(directory, orphan_seconds=orphan_seconds, cgroup=launcher.cgroup, on_exit=self._exited)

    @property
    def name(self) -> str:
        """What container IDs begin with."""
        return self._launcher.name

    @property
    def version(self) -> str:
        """The version of the container runtime behind it."""
        return self._launcher.version

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Find or start the shim; answers the containers it holds.

        Raises:
            ShimLost: it cannot be started.
        """
        self._on_exit = on_exit
        states = tuple(_state(container) for container in await self._shim.open())
        self._running = {state.id for state in states if state.running}
        return states

    async def warm_up(self) -> None:
        """Start the shim, if there is none, so that `open` need not wait for it.

        Raises:
            ShimLost: it cannot be started.
        """
        await self._shim.open()
        await self._shim.close(end=False)

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Have the shim start a container.

        Raises:
            RuntimeFailure: CreateContainerError if a device is missing, RunContainerError if it does not start.
        """
        directory = self._directory / spec.id
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            description = self._launcher.describe(spec, directory)
        except CDIError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise RuntimeFailure("CreateContainerError", f"CDI device injection failed: {error}") from error
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise RuntimeFailure("CreateContainerError", str(error)) from error
        request = {"do": "start", "id": spec.id, "label": _label(spec), "log": spec.log_path, **description}
        request |= {"tty": spec.tty, "stdin": spec.stdin, "stdin_once": spec.stdin_once}
        self._running.add(spec.id)
        try:
            answer = await self._shim.ask(request)
        except ShimLost as error:
            raise RuntimeFailure("CreateContainerError", str(error)) from error
        if "error" in answer:
            self._running.discard(spec.id)
            raise RuntimeFailure("RunContainerError", f"failed to start container: {answer['error']}")
        return ContainerRun(spec.id, spec.pod, spec.name, spec.attempt, answer["started_at"])

    def _exited(self, container: Mapping[str, Any]) -> None:
        state = _state(container)
        self._running.discard(state.id)
        self._on_exit(state)

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the container's first process."""
        with contextlib.suppress(ShimLost):
            await self._shim.ask({"do": "signal", "id": container_id, "number": number})

    async def remove(self, container_id: str) -> None:
        """Have the shim forget a container."""
        self._running.discard(container_id)
        with contextlib.suppress(ShimLost):
            await self._shim.ask({"do": "remove", "id": container_id})

    async def exec(
        self, container_id: str, argv: tuple[str, ...], *, tty: bool = False, stdin: bool = False
    ) -> ExecProcess:
        """Run a command in a running container.

        Raises:
            RuntimeFailure: the container does not run, or the command cannot be started.
        """
        if container_id not in self._running:
            raise RuntimeFailure("NotFound", f"container {container_id} is not running")
        command, environment, directory = self._launcher.exec_command(
            self._directory, container_id, self._shim.pid, argv, tty=tty
        )
        try:
            return await Command.start(command, environment, directory, tty=tty, stdin=stdin)
        except OSError as error:
            raise RuntimeFailure("ExecFailed", f'exec: "{argv[0]}": {error.strerror}') from error

    async def attach(self, container_id: str) -> ExecProcess:
        """Input and output of a container's first process.

        Raises:
            RuntimeFailure: the container does not run.
        """
        attached = AttachedProcess(self._shim, container_id)
        try:
            await attached.open()
        except ShimLost as error:
            raise RuntimeFailure("NotFound", str(error)) from error
        return attached

    async def lost(self) -> None:
        """Wait until the shim is gone."""
        if self._shim.lost is not None:
            await asyncio.shield(self._shim.lost)

    async def close(self, *, stop_containers: bool) -> None:
        """Hang up, or have everything killed and cleaned up."""
        self._on_exit = lambda _: None
        await self._shim.close(end=stop_containers)


def _label(spec: ContainerSpec) -> str:
    pod = spec.pod
    return json.dumps([pod.namespace, pod.name, pod.uid, spec.name, spec.attempt])


def _state(container: Mapping[str, Any]) -> ContainerRun:
    namespace, pod_name, uid, name, attempt = json.loads(container["label"])
    state = ContainerRun(container["id"], PodIdentity(namespace, pod_name, uid), name, attempt, container["started_at"])
    ended = container["exit"]
    if ended is None:
        return state
    reason = ended["reason"] or ("Completed" if ended["code"] == 0 else "Error")
    return ContainerRun(
        state.id,
        state.pod,
        name,
        attempt,
        state.started_at,
        finished_at=ended["finished_at"],
        exit_code=ended["code"],
        signal=ended["signal"],
        reason=reason,
    )
