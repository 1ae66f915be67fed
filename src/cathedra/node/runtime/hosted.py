"""Containers that really run: by crun or runc as OCI containers, or as plain processes.

Both kinds are held by a container shim (`cathedra.node.shim`), so an agent that comes back finds them again. What they
have in common is here; how a container is described to the shim is up to a `Launcher`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import logging
import shutil
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from cathedra.cdi.spec import CDIError
from cathedra.client.backoff import DoublingPauses
from cathedra.clock import Clock
from cathedra.node.runtime.attached import AttachedProcess
from cathedra.node.runtime.bundle import limit_resources
from cathedra.node.runtime.command import Command, ConsoleSocket, ExecCommand, run_to_end
from cathedra.node.runtime.notstarted import LoggedCommand, UnstartedCommand, exit_code_of
from cathedra.node.runtime.podnetworks import PodNetworks
from cathedra.node.runtime.runtime import (
    LOST_MESSAGE,
    LOST_REASON,
    ContainerRun,
    ContainerSpec,
    ContainerUsage,
    ExecProcess,
    PodIdentity,
    ResourceLimits,
    RuntimeFailure,
)
from cathedra.node.runtime.usage import usage_of_process
from cathedra.node.shim.client import ShimListing, ShimOptions, abandon, connect, connect_or_launch, end
from cathedra.node.shim.processes import Belongs, matching
from cathedra.node.shim.protocol import IncompatibleShim, ShimLost

_RECONNECT: Final = (0.5, 30.0)
"""First and longest pause, in seconds, after a shim could not be started."""
_END_SECONDS: Final = 10.0
_LOG = logging.getLogger(__name__)


class Launcher(Protocol):
    """Describes containers of one kind to the shim."""

    @property
    def name(self) -> str:
        """Prefix of container IDs."""

    @property
    def version(self) -> str:
        """Version of the launcher's program."""

    @property
    def cgroup(self) -> str:
        """The cgroup that all its containers are below, or ""."""

    def describe(self, spec: ContainerSpec, directory: Path) -> dict[str, Any]:
        """Return the part of the shim's start request that is particular to the kind; files go to ``directory``.

        Raises:
            CDIError: a device cannot be resolved or injected.
            OSError: a file cannot be read or written.
            ValueError: the container's seccomp profile is none.
        """

    def update_command(self, container_id: str, shim_pid: int) -> list[str]:
        """Return the command line that reads other limits from its standard input; [] if there is nothing to limit."""

    def members(self, directory: Path, container_id: str, pid: int) -> Belongs:
        """Match the processes of a container, whose first is ``pid``; its files are below ``directory``."""

    @property
    def hands_over_terminals(self) -> bool:
        """Return True if a command's terminal comes from the program of `exec_command`, at the socket ``console``."""

    def exec_command(
        self,
        directory: Path,
        container_id: str,
        shim_pid: int,
        command: ExecCommand,
    ) -> tuple[list[str], Mapping[str, str] | None, str]:
        """Return the command line, environment (None: this process's own) and directory of a command in a container.

        A program that executes it may write into the command's ``log`` why it could not (JSON lines).
        """


class HostedRuntime:
    """A `Runtime` of real containers below ``directory``.

    It owns the connection to the shim. While `supervise` runs, a lost shim is replaced as soon as its socket ends: its
    containers are reported as ended, and requests wait for the next shim instead of failing. That is safe because all
    of them may be repeated (see `cathedra.node.shim.protocol`).
    """

    images = None
    sandboxes: PodNetworks | None = None
    """The networks of pods; None: pods share the node's."""

    def __init__(
        self,
        launcher: Launcher,
        directory: Path,
        *,
        clock: Clock,
        orphan_seconds: float = 600.0,
        networks: PodNetworks | None = None,
    ) -> None:
        self.sandboxes = networks
        self._launcher = launcher
        self._directory = directory
        self._clock = clock
        self._options = ShimOptions(directory, orphan_seconds, launcher.cgroup)
        self._on_exit: Callable[[ContainerRun], None] = _ignore
        self._starting: set[str] = set()
        self._running: dict[str, ContainerRun] = {}
        self._shim: ShimListing | None = None
        self._superseded = asyncio.Event()
        """Set when the shim that is known here has been replaced, or will not be; each has an event of its own."""
        self._supervised = False
        self._commands = itertools.count()
        self._of_container: dict[str, weakref.WeakSet[Command]] = {}
        """Commands that run in a container, by its ID."""

    @property
    def name(self) -> str:
        """Prefix of container IDs."""
        return self._launcher.name

    @property
    def version(self) -> str:
        """The version of the container runtime behind it."""
        return self._launcher.version

    @property
    def cgroup(self) -> str:
        """The cgroup that all its containers are below."""
        return self._launcher.cgroup

    # The shim

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Find or start the shim. Return the containers that it holds.

        Raises:
            ShimLost: it cannot be started.
            IncompatibleShim: one of another version holds the containers.
        """
        ended: dict[str, ContainerRun] = {}
        # A container that ends after the shim has listed it is reported before the list is processed here.
        self._on_exit = lambda run: ended.update({run.id: run})
        self._shim = await self._connect()
        listed = (_run(container) for container in self._shim.containers)
        runs = tuple(ended.get(run.id, run) for run in listed)
        self._running = {run.id: run for run in runs if run.running}
        self._on_exit = on_exit
        return runs

    async def warm_up(self) -> None:
        """Start the shim, if there is none, so that `open` need not wait for it.

        Raises:
            ShimLost: it cannot be started.
            IncompatibleShim: one of another version holds the containers.
        """
        await (await self._connect()).connection.close()

    async def supervise(self) -> None:
        """Replace the shim whenever it is lost, until cancelled."""
        self._supervised = True
        try:
            while self._shim is not None:
                await self._shim.connection.wait_lost()
                _LOG.error("container shim %d of %s was lost; starting another", self._shim.pid, self._directory)
                self._shim = await self._reconnect()
                self._report_lost(_run(container) for container in self._shim.containers)
                self._supersede()
        finally:
            self._supervised = False
            self._supersede()  # wakes callers that wait for another shim

    def _supersede(self) -> None:
        superseded, self._superseded = self._superseded, asyncio.Event()
        superseded.set()

    async def _reconnect(self) -> ShimListing:
        pauses = DoublingPauses(*_RECONNECT)
        while True:
            try:
                return await self._connect()
            except (OSError, IncompatibleShim) as error:
                pause = pauses.take()
                _LOG.error("no container shim for %s, next attempt in %g s: %s", self._directory, pause, error)
            await self._clock.sleep(pause)

    async def _connect(self) -> ShimListing:
        return await connect_or_launch(self._options, self._exited)

    def _report_lost(self, listed: Iterable[ContainerRun]) -> None:
        """Report the ends that were missed: the shim's death is the end of its containers."""
        found = {run.id: run for run in listed}
        for known in tuple(self._running.values()):
            run = found.get(known.id)
            # A container that is being started is requested again from the new shim, and is not lost.
            if run is None and known.id not in self._starting:
                run = _lost(known, self._clock.now())
            if run is not None and not run.running:
                self._end(run)

    async def _call(self, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Call the shim, and its successor if it is lost. ``make`` makes the request, again for each of them.

        A shim that takes over removes the files of containers without a request. They must therefore be created after
        that.

        Raises:
            ShimLost: the shim is lost, and no other is started any more.
        """
        while self._shim is not None:
            # Taken before the call: if the shim is replaced during it, the wait below must return at once.
            superseded = self._superseded
            if not self._supervised:
                return await self._shim.connection.call(dict(make()))
            if not self._shim.connection.lost:
                with contextlib.suppress(ShimLost):
                    return await self._shim.connection.call(dict(make()))
            await superseded.wait()
        raise ShimLost("the container shim has not been started")

    async def status(self) -> tuple[str, ...]:
        """Return () while the shim runs.

        Raises:
            RuntimeFailure: the shim is lost, and its successor has not started yet.
        """
        if self._shim is None or self._shim.connection.lost:
            raise RuntimeFailure("ShimLost", "the container shim is lost")
        return ()

    # Containers

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Start a container in the shim.

        Raises:
            RuntimeFailure: CreateContainerError if a device is missing, RunContainerError if it does not start.
        """
        run = ContainerRun(spec.id, spec.pod, spec.name, spec.attempt, self._clock.now())
        # Entered before the request: the end may be reported before the answer arrives.
        self._running[spec.id] = run
        self._starting.add(spec.id)
        try:
            answer = await self._call(lambda: self._start_request(spec))
            if "error" in answer:
                raise RuntimeFailure("RunContainerError", f"failed to start container: {answer['error']}")
        except ShimLost as error:
            # The run stays entered: the shim may have started it, and its successor reports it as lost.
            raise RuntimeFailure("CreateContainerError", str(error)) from error
        except RuntimeFailure:
            self._running.pop(spec.id, None)
            raise
        finally:
            self._starting.discard(spec.id)
        run = replace(run, started_at=answer["started_at"])
        # It may have ended meanwhile; entering it again would let it count as running for ever.
        if spec.id in self._running:
            self._running[spec.id] = run
        return run

    def _start_request(self, spec: ContainerSpec) -> Mapping[str, Any]:
        directory = self._directory / spec.id
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            description = self._launcher.describe(spec, directory)
        except CDIError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise RuntimeFailure("CreateContainerError", f"CDI device injection failed: {error}") from error
        except (OSError, ValueError) as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise RuntimeFailure("CreateContainerError", str(error)) from error
        request = {"do": "start", "id": spec.id, "label": _label(spec), "log": spec.log_path, **description}
        return request | {"tty": spec.tty, "stdin": spec.stdin, "stdin_once": spec.stdin_once}

    def _exited(self, container: Mapping[str, Any]) -> None:
        self._end(_run(container))

    def _end(self, run: ContainerRun) -> None:
        self._running.pop(run.id, None)
        # The shim has killed all of them but those that began while its report was on its way. They end before the pod
        # does, whose devices go to the next one.
        for command in self._of_container.pop(run.id, ()):
            command.kill()
        self._on_exit(run)

    async def update(self, container_id: str, limits: ResourceLimits) -> None:
        """Change the container's cgroup through the runtime's program.

        Raises:
            RuntimeFailure: the container does not run, or its cgroup cannot be changed so.
        """
        if container_id not in self._running or self._shim is None:
            raise RuntimeFailure("NotFound", f"container {container_id} is not running")
        command = self._launcher.update_command(container_id, self._shim.pid)
        if not command:
            return
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate(json.dumps(limit_resources(limits)).encode())
        if process.returncode != 0:
            raise RuntimeFailure("UpdateContainerError", said.decode(errors="replace").strip())

    async def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the container's first process."""
        with contextlib.suppress(ShimLost):
            await self._call(lambda: {"do": "signal", "id": container_id, "number": number})

    async def remove(self, container_id: str) -> None:
        """Remove a container from the shim."""
        self._running.pop(container_id, None)
        with contextlib.suppress(ShimLost):
            await self._call(lambda: {"do": "remove", "id": container_id})

    async def exec(
        self, container_id: str, argv: tuple[str, ...], *, tty: bool = False, stdin: bool = False
    ) -> ExecProcess:
        """Run a command in a running container; one that cannot be executed ends with 126 or 127.

        Raises:
            RuntimeFailure: the container does not run, or there is nothing left to start a command with.
        """
        if container_id not in self._running or self._shim is None:
            raise RuntimeFailure("NotFound", f"container {container_id} is not running")
        log = self._directory / container_id / f"exec-{next(self._commands)}.log"
        describe = partial(self._launcher.exec_command, self._directory, container_id, self._shim.pid)
        wanted = ExecCommand(argv, tty, log)
        try:
            if tty and self._launcher.hands_over_terminals:
                with ConsoleSocket() as console:
                    line, _, _ = describe(dataclasses.replace(wanted, console=console.path))
                    command = await Command.start_on_console(line, console)
                    return await self._logged(container_id, command, log)
            line, environment, directory = describe(wanted)
        except OSError as error:
            raise RuntimeFailure("ExecFailed", f'exec: "{argv[0]}": {error.strerror}') from error
        try:
            command = await Command.start(line, environment, directory, tty=tty, stdin=stdin)
        except OSError as error:
            code = exit_code_of(error)
            if code is None:
                raise RuntimeFailure("ExecFailed", f'exec: "{argv[0]}": {error.strerror}') from error
            return UnstartedCommand(argv[0], error, code)
        return await self._logged(container_id, command, log)

    async def _logged(self, container_id: str, command: Command, log: Path) -> ExecProcess:
        """Enter a command that was started, so that it ends with its container.

        Raises:
            RuntimeFailure: the container ended meanwhile.
        """
        process = LoggedCommand(command, log)
        if container_id not in self._running:
            # The shim has killed what ran in the container, and this may have begun after that.
            command.kill()
            await process.close()
            raise RuntimeFailure("NotFound", f"container {container_id} is not running")
        self._of_container.setdefault(container_id, weakref.WeakSet()).add(command)
        return process

    async def exec_sync(self, container_id: str, argv: tuple[str, ...], seconds: float) -> tuple[int, bytes]:
        """Run a command to its end; its exit code, and the beginning of what it wrote.

        Raises:
            RuntimeFailure: the container does not run, or there is nothing left to start a command with.
            TimeoutError: the command had not ended after ``seconds``; it has been ended.
        """
        async with asyncio.timeout(seconds):
            return await run_to_end(await self.exec(container_id, argv))

    async def attach(self, container_id: str) -> ExecProcess:
        """Return input and output of a container's first process.

        Raises:
            RuntimeFailure: the container does not run.
        """
        if self._shim is None:
            raise RuntimeFailure("NotFound", f"container {container_id} is not running")
        attached = AttachedProcess(self._shim.connection, container_id)
        try:
            await attached.open()
        except ShimLost as error:
            raise RuntimeFailure("NotFound", str(error)) from error
        return attached

    async def processes(self, container_ids: Collection[str]) -> frozenset[int]:
        """Return their entries in /proc."""
        running = await self._first_processes()
        found = [
            self._launcher.members(self._directory, name, pid) for name, pid in running.items() if name in container_ids
        ]
        return frozenset(await asyncio.to_thread(matching, lambda pid: any(belongs(pid) for belongs in found)))

    async def _first_processes(self) -> dict[str, int]:
        """Return the process ID of each running container, by container ID; {} if the shim is lost."""
        try:
            listed = (await self._call(lambda: {"do": "list"}))["containers"]
        except ShimLost:
            return {}
        return {one["id"]: one["pid"] for one in listed if one["exit"] is None and one["pid"]}

    async def usage(self) -> Mapping[str, ContainerUsage]:
        """Return the usage of each container, as counted by the kernel."""
        running = await self._first_processes()
        own = bool(self._launcher.cgroup)
        found = await asyncio.to_thread(
            lambda: {name: usage_of_process(pid, own_cgroup=own) for name, pid in running.items()}
        )
        return {name: used for name, used in found.items() if used is not None}

    async def close(self, *, stop_containers: bool) -> None:
        """Disconnect; or kill and remove everything, also what a lost shim has left."""
        # Ends caused by closing are no news for pods, which are over for this agent.
        self._on_exit = _ignore
        if stop_containers:
            await self._end_shim()
            if self.sandboxes is not None:
                for pod in await self.sandboxes.pods():
                    await self.sandboxes.remove(pod.uid)
        if self._shim is not None:
            await self._shim.connection.close()
            self._shim = None

    async def abandon(self) -> None:
        """End a shim that `warm_up` started and that no agent will use, unless it holds containers."""
        with contextlib.suppress(OSError, IncompatibleShim):
            await abandon(await connect(self._directory, self._exited))

    async def _end_shim(self) -> None:
        with contextlib.suppress(OSError, IncompatibleShim, TimeoutError):
            if self._shim is None:
                # An `open` that was interrupted leaves a shim that found containers of an earlier one.
                self._shim = await connect(self._directory, self._exited)
            elif self._shim.connection.lost:
                self._shim = await self._connect()
            async with asyncio.timeout(_END_SECONDS):
                await end(self._shim.connection)


def _ignore(_: ContainerRun) -> None:
    """Ends are reported only between `open` and `close`."""


def _lost(run: ContainerRun, now: float) -> ContainerRun:
    """Return the run as ended: not even the next shim knows it."""
    return replace(run, finished_at=now, exit_code=137, reason=LOST_REASON, message=LOST_MESSAGE)


def _label(spec: ContainerSpec) -> str:
    pod = spec.pod
    return json.dumps([pod.namespace, pod.name, pod.uid, spec.name, spec.attempt])


def _run(container: Mapping[str, Any]) -> ContainerRun:
    namespace, pod_name, uid, name, attempt = json.loads(container["label"])
    run = ContainerRun(container["id"], PodIdentity(namespace, pod_name, uid), name, attempt, container["started_at"])
    ended = container["exit"]
    if ended is None:
        return run
    return replace(
        run,
        finished_at=ended["finished_at"],
        exit_code=ended["code"],
        signal=ended["signal"],
        reason=ended["reason"] or ("Completed" if ended["code"] == 0 else "Error"),
        message=ended.get("message", ""),
    )
