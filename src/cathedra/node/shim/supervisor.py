"""The containers that the shim holds: started, signalled, removed, and found again by a later shim."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cathedra.files.atomic import write_atomic
from cathedra.node.faultpoints import FaultPoints
from cathedra.node.shim import kernel
from cathedra.node.shim.children import Children, run_to_end, start_process
from cathedra.node.shim.kernel import start_time
from cathedra.node.shim.pins import mount_pins, release_pins
from cathedra.node.shim.processes import Belongs, has_variable, in_cgroup, in_session, kill
from cathedra.node.shim.streams import ContainerStreams, LogFile

_OWN_DIRECTORIES: Final = frozenset({"pins", "rootfs", "runtime"})

Reply = Callable[..., None]
"""Answers a request, with named fields."""


class ContainerSupervisor:
    """Containers below ``directory``; ``on_exit`` is called at every end."""

    def __init__(
        self,
        directory: Path,
        selector: selectors.BaseSelector,
        on_exit: Callable[[ShimContainer], None],
        faults: FaultPoints,
    ) -> None:
        self.children = Children()
        self._directory = directory
        self._rootfs = directory / "rootfs"
        self._selector = selector
        self._on_exit = on_exit
        self._faults = faults
        self._containers: dict[str, ShimContainer] = {}

    @property
    def containers(self) -> tuple[ShimContainer, ...]:
        """All that have been started and not been removed."""
        return tuple(container for container in self._containers.values() if container.announced)

    @property
    def idle(self) -> bool:
        """Return True if nothing runs."""
        return all(container.exit for container in self._containers.values())

    def find(self, container_id: str) -> ShimContainer | None:
        """Return the container, if it exists."""
        return self._containers.get(container_id)

    def save(self) -> None:
        """Write down what a later shim has to know."""
        for container in self._containers.values():
            container.save()

    # The beginning

    def start(self, request: dict[str, Any], answer: Reply) -> None:
        """Start a container, once per ID; the answer has its start time and process ID, or an error."""
        self._faults.reach("shim:request-received")
        present = self._containers.get(request["id"])
        if present is not None and present.announced:
            # Started twice, by an agent and its successor or after a lost connection: there is one container.
            answer(started_at=present.started_at, pid=present.pid)
            return
        # The start is in progress; both requests get its result.
        if present is not None and present.exit is None:
            present.waiting.append(answer)
            return
        if present is not None:
            answer(error=f"container {request['id']} is being removed")
            return
        directory = self._directory / request["id"]
        directory.mkdir(mode=0o700, exist_ok=True)
        container = ShimContainer(request["id"], request, directory)
        container.waiting.append(answer)
        self._containers[container.id] = container
        try:
            container.streams = ContainerStreams(self._selector, LogFile(request["log"]))
            if container.oci:
                self._create_oci(container, container.streams)
            else:
                self._start_process(container, container.streams)
        except OSError as error:
            self._fail(container, str(error))

    def _create_oci(self, container: ShimContainer, streams: ContainerStreams) -> None:
        layers = self._rootfs / container.id
        for name in ("upper", "work", "merged"):
            (layers / name).mkdir(parents=True, exist_ok=True)
        kernel.mount_overlay(str(layers / "merged"), str(layers / "upper"), str(layers / "work"))
        mount_pins(self._directory, container.id, container.request.get("pins", []))
        # On disk before the runtime is started: if the shim dies now, its successor finds the directory and deletes
        # what the runtime may have created.
        container.save()
        self._faults.reach("shim:container-saved")
        pid_file = container.directory / "pid"

        def created(status: int) -> None:
            release_pins(self._directory, container.id)
            if status != 0:
                self._fail(container, container.problem())
                return
            container.pid = int(pid_file.read_text())
            self._faults.reach("shim:container-created")
            container.memory_cgroup = kernel.memory_cgroup(container.pid)
            self._claim(container)
            self._record_start(container)
            # Not before the process is recorded: after `start` the program runs, and a shim that takes over must know
            # that it may have changed something.
            self.children.run([*container.runtime, "start", container.id], started)

        def started(status: int) -> None:
            if status != 0:
                self._fail(container, container.problem())
                return
            self._running(container)

        arguments = ["create", "--bundle", str(container.directory), "--pid-file", str(pid_file)]
        if container.tty:
            arguments += ["--console-socket", self._expect_terminal(container, streams)]
            self.children.run([*container.runtime, *arguments, container.id], created)
            return
        ends = streams.open_pipes(stdin=container.stdin)
        self.children.run([*container.runtime, *arguments, container.id], created, ends)
        # Only the container may hold its ends of the pipes, or their end of file would never come.
        ends.close()

    def _expect_terminal(self, container: ShimContainer, streams: ContainerStreams) -> str:
        """Return the path of the socket to which the runtime will send the terminal."""
        folder = os.open(container.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        container.closing.callback(os.close, folder)
        path = f"/proc/{os.getpid()}/fd/{folder}/console.sock"  # the real path may be longer than an address can be
        listener = container.closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(path)
        listener.listen(1)

        def arrived(_: socket.socket) -> None:
            with listener.accept()[0] as connection:
                descriptors = socket.recv_fds(connection, 1024, 1)[1]
            container.closing.close()
            for fd in descriptors:
                streams.take_terminal(fd)

        self._selector.register(listener, selectors.EVENT_READ, arrived)
        container.closing.callback(self._selector.unregister, listener)
        return path

    def _start_process(self, container: ShimContainer, streams: ContainerStreams) -> None:
        request = container.request
        ends = streams.open_terminal() if container.tty else streams.open_pipes(stdin=container.stdin)
        container.save()
        self._faults.reach("shim:container-saved")

        def forked(pid: int) -> None:
            container.pid = pid
            self._faults.reach("shim:container-created")
            self._record_start(container)

        _, problem = start_process(request["argv"], request["env"], request["cwd"], ends, forked=forked)
        ends.close()
        if problem:
            # Reaped, but no end of a container: the program was never executed.
            self.children.claim(container.pid, lambda _: None)
            self._fail(container, problem)
            return
        self._claim(container)
        self._running(container)

    def _record_start(self, container: ShimContainer) -> None:
        """From now on its program may run: if this shim is lost, the next one must not take it for never started."""
        container.started_at = time.time()
        container.recorded_process = kernel.start_time(container.pid)
        container.save()
        self._faults.reach("shim:container-recorded")

    def _claim(self, container: ShimContainer) -> None:
        """From now on the end of that process is the end of the container."""
        container.early_status = self.children.claim(container.pid, lambda status: self._ended(container, status))

    def _running(self, container: ShimContainer) -> None:
        self._faults.reach("shim:container-started")
        container.announced = True
        # The answer comes before the end, even if the container has ended already: an agent cannot place the end of a
        # container that it does not know.
        for answer in container.waiting:
            answer(started_at=container.started_at, pid=container.pid)
        container.waiting.clear()
        if container.early_status is not None:
            self._ended(container, container.early_status)

    def _fail(self, container: ShimContainer, why: str) -> None:
        container.exit = {"code": 128, "signal": 0, "finished_at": time.time(), "reason": "StartError"}

        def removed(**_: Any) -> None:
            for answer in container.waiting:
                answer(error=why)

        self.remove(container.id, removed)

    # The end

    def signal(self, container_id: str, number: int) -> None:
        """Send a signal to a container's first process; SIGKILL goes to its whole process group."""
        container = self._containers.get(container_id)
        if container is None or container.exit is not None or not container.pid:
            return
        with contextlib.suppress(ProcessLookupError):
            # A plain process has no PID namespace whose other processes the kernel would kill with it.
            if number == signal.SIGKILL and not container.oci:
                os.killpg(container.pid, number)
            os.kill(container.pid, number)

    def _ended(self, container: ShimContainer, status: int) -> None:
        if not container.announced:
            container.early_status = status
            return
        self._faults.reach("shim:exit-seen")
        if container.exit is not None or container.id not in self._containers:
            return
        _kill_remaining(container)
        if container.streams is not None:
            container.streams.drain()  # behind the kill: what still wrote could go on for ever
        number = -status if status < 0 else 0
        code = 128 + number if number else status
        killed = number == signal.SIGKILL and kernel.oom_killed(container.memory_cgroup)
        reason = "OOMKilled" if killed else ""
        container.exit = {"code": code, "signal": number, "finished_at": time.time(), "reason": reason}
        # On disk before agents are notified: an agent may remove the pod at once, and its successor must find the same
        # exit code.
        container.save()
        self._faults.reach("shim:exit-recorded")
        self._on_exit(container)

    def remove(self, container_id: str, answer: Reply) -> None:
        """Forget a container and remove everything of it; what still runs of it is killed."""
        container = self._containers.get(container_id)
        if container is None:
            answer()
            return

        def deleted(_: int) -> None:
            self._faults.reach("shim:container-deleted")
            self._containers.pop(container_id, None)
            container.closing.close()
            if container.streams is not None:
                container.streams.close()
            layers = self._rootfs / container_id
            if container.oci:
                release_pins(self._directory, container_id)
                kernel.unmount(str(layers / "merged"))
                shutil.rmtree(layers, ignore_errors=True)
            shutil.rmtree(container.directory, ignore_errors=True)
            answer()

        if container.oci:
            self.children.run([*container.runtime, "delete", "--force", container_id], deleted)
            return
        self.signal(container_id, signal.SIGKILL)
        _kill_remaining(container)
        deleted(0)

    def end_all(self, done: Callable[[], None]) -> None:
        """Kill and remove everything; then ``done`` is called."""

        def gone(**_: Any) -> None:
            if not self._containers:
                done()

        for container_id in tuple(self._containers):
            self.signal(container_id, signal.SIGKILL)
            self.remove(container_id, gone)
        gone()

    # What an earlier shim left

    def recover(self) -> None:
        """Take over from a shim that died. Its containers cannot be adopted: running ones are killed.

        A container whose program may have run is kept, as lost, until it is removed. One that never ran leaves nothing.
        """
        for directory in sorted(self._directory.iterdir()):
            if directory.name in _OWN_DIRECTORIES or not directory.is_dir():
                continue
            container = _load(directory)
            if container is None:
                shutil.rmtree(directory, ignore_errors=True)  # the request to start it never arrived
                continue
            if container.exit is None:
                _kill_orphan(container)
            if not container.started_at:
                if container.oci:
                    release_pins(self._directory, container.id)
                    run_to_end([*container.runtime, "delete", "--force", container.id])
                shutil.rmtree(directory, ignore_errors=True)
                continue
            if container.exit is None:
                container.note_lost(time.time())
                container.save()
            container.announced = True
            self._containers[container.id] = container


def _load(directory: Path) -> ShimContainer | None:
    try:
        content = json.loads((directory / "container.json").read_text())
        container = ShimContainer(directory.name, content["request"], directory)
        container.pid, container.started_at = content["pid"], content["started_at"]
        container.recorded_process, container.exit = content["start"], content["exit"]
    except (OSError, ValueError, KeyError):
        return None
    return container


def _kill_orphan(container: ShimContainer) -> None:
    # The number may belong to another process by now; the start time identifies it.
    if container.pid and kernel.start_time(container.pid) == container.recorded_process:
        with contextlib.suppress(OSError):
            if not container.oci:
                os.killpg(container.pid, signal.SIGKILL)
            os.kill(container.pid, signal.SIGKILL)
    _kill_remaining(container)


def _kill_remaining(container: ShimContainer) -> None:
    """Kill what runs of a container besides its first process: commands that clients started in it, and daemons.

    The devices may be given to the next pod as soon as the container's end is reported. The kernel itself kills the
    processes of a PID namespace, but a pod may share the host's.
    """
    kill(_process_of(container))


def _process_of(container: ShimContainer) -> Belongs:
    """Match the processes of a container by its cgroup; without one, by its session and the variable it has set."""
    if container.oci:
        return in_cgroup(container.request["cgroup"])
    of_session = in_session(container.pid) if _session_is_own(container) else in_session()
    marker = container.request.get("marker", "")
    if not marker:
        return of_session
    of_variable = has_variable(marker)
    return lambda pid: of_session(pid) or of_variable(pid)


def _session_is_own(container: ShimContainer) -> bool:
    """Return True if the number of the container's first process was not given to another process.

    The kernel gives no number away that is still the number of a session, even if its first process has ended.
    """
    return kernel.start_time(container.pid) in {"", container.recorded_process}


_LOST: Final = "The container could not be located when its container shim was lost.  The container used to be Running"


class ShimContainer:
    """A container, from the request to start it until it is removed.

    ``waiting``: replies to be called when it has started or failed to.
    """

    def __init__(self, container_id: str, request: dict[str, Any], directory: Path) -> None:
        self.id = container_id
        self.request = request
        self.directory = directory
        self.pid = 0
        self.started_at = 0.0
        """Set before its program may run for the first time; 0: it never has."""
        self.recorded_process = ""
        """The kernel's start time of the process ``pid``, recorded before its program ran."""
        self.announced = False
        """True if its start was answered, so that agents may be notified of it."""
        self.exit: dict[str, Any] | None = None
        self.early_status: int | None = None
        """Exit status, if it ended before its start was answered."""
        self.memory_cgroup = ""
        self.streams: ContainerStreams | None = None
        self.waiting: list[Callable[..., None]] = []
        self.closing = contextlib.ExitStack()
        """Descriptors that are open only until the container runs or has ended."""

    @property
    def oci(self) -> bool:
        """Return True if a container runtime runs it, or it is a process of ours."""
        return bool(self.request["kind"] == "oci")

    @property
    def tty(self) -> bool:
        """Return True if its input and output are a terminal."""
        return bool(self.request.get("tty"))

    @property
    def stdin(self) -> bool:
        """Return True if its input can be written to."""
        return bool(self.request.get("stdin"))

    @property
    def stdin_once(self) -> bool:
        """Return True if its input ends with the first attached connection."""
        return bool(self.request.get("stdin_once"))

    @property
    def runtime(self) -> list[str]:
        """Return the first words of the container runtime's command lines."""
        return [*self.request["runtime"], "--log", str(self.directory / "runtime.log"), "--log-format", "json"]

    def public(self) -> dict[str, Any]:
        """Return the container as agents receive it."""
        return {
            "id": self.id,
            "label": self.request["label"],
            "pid": self.pid,
            "started_at": self.started_at,
            "exit": self.exit,
        }

    def problem(self) -> str:
        """Return the last thing that the container runtime wrote into its log."""
        try:
            last = (self.directory / "runtime.log").read_text(errors="replace").strip().rpartition("\n")[2]
            return str(json.loads(last)["msg"])
        except (OSError, ValueError, KeyError):
            return "the container runtime gave no reason"

    def note_lost(self, now: float) -> None:
        """Note that its shim is gone, and its exit code with it. Reason and code are those of a kubelet that misses
        one."""
        self.exit = {"code": 137, "signal": 0, "finished_at": now, "reason": "ContainerStatusUnknown", "message": _LOST}

    def save(self) -> None:
        """Write down what a later shim has to know.

        Where that cannot be done (the disk is full, the directory was removed) this shim still holds its containers.
        """
        content = {"request": self.request, "pid": self.pid, "start": start_time(self.pid)}
        content |= {"started_at": self.started_at, "exit": self.exit}
        with contextlib.suppress(OSError):
            write_atomic(self.directory / "container.json", json.dumps(content).encode())
