"""The shim as a program, which goes into the background once it can be reached, and its server for agents."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from cathedra.node.faultpoints import FaultPoints
from cathedra.node.shim import kernel
from cathedra.node.shim.protocol import PROTOCOL
from cathedra.node.shim.supervisor import ContainerSupervisor, Reply, ShimContainer

_PATIENCE: Final = 10.0


def main() -> None:
    """Arguments: the directory, the seconds for which containers go on without an agent, the cgroup ("" for none)."""
    directory = Path(sys.argv[1])
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _become_only_shim(directory):
        return
    faults = FaultPoints.from_environment(os.environ)
    server = ShimServer(directory, float(sys.argv[2]), sys.argv[3], faults)
    listener = server.prepare()
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    server.run(listener)


def _become_only_shim(directory: Path) -> bool:
    """Take the directory's lock, which ends with this process. Return False once another shim can be reached.

    An agent that is killed right after it has started a shim leaves one that does not serve yet; its successor starts
    another. Two of them would take each other's socket away. And a shim that was just killed may leave the lock for a
    moment to a child that it was forking.
    """
    lock = os.open(directory / "shim.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _answers(directory):
                os.close(lock)
                return False
            time.sleep(0.02)  # two processes that start share nothing that could be waited for
        else:
            return True
    sys.exit(f"another shim holds {directory} and does not answer")


def _answers(directory: Path) -> bool:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(f"/proc/self/fd/{folder}/shim.sock")
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


# The shim's server: JSON lines on a unix socket, for agents.
#
# Requests carry a ``tag``, which the answer repeats; ends of containers are sent to every connection, output to the
# attached ones. State that must survive the shim (labels, exit codes) is in files beside the socket. The machine's
# clock is read directly: processes are real here, and time never virtual.
#
# As root the shim runs in a mount namespace of its own: root file systems of containers are overlays on the host's
# root, writable layers are on a tmpfs, and all of it vanishes with the last process that uses it. In that namespace
# the unified cgroup hierarchy is hidden where the kernel has the old ones too, because crun refuses that mixture.

_IDLE_SECONDS: Final = 60.0
_UNIFIED: Final = "/sys/fs/cgroup/unified"
_CGROUPS: Final = Path("/sys/fs/cgroup")


class ShimServer:
    """The shim of one directory. ``cgroup``: parent of its containers' cgroups, removed at the end."""

    def __init__(self, directory: Path, orphan_seconds: float, cgroup: str, faults: FaultPoints) -> None:
        self._directory = directory
        self._orphan_seconds = orphan_seconds
        self._cgroup = cgroup
        self._selector = selectors.DefaultSelector()
        self._supervisor = ContainerSupervisor(directory, self._selector, self._exited, faults)
        self._agents: dict[socket.socket, bytes] = {}
        self._alone_since = time.monotonic()
        self._done = False

    def prepare(self) -> socket.socket:
        """Set up namespace and socket; when this returns, an agent can connect.

        Raises:
            OSError: this machine does not allow it.
        """
        rootfs = self._directory / "rootfs"
        rootfs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            kernel.enter_mount_namespace()
            if Path(_UNIFIED, "cgroup.controllers").exists():
                kernel.unmount(_UNIFIED)
            kernel.mount_tmpfs(str(rootfs))
        # Before the socket exists: no agent may start a container whose predecessor has not been killed yet.
        self._supervisor.recover()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        path = f"/proc/self/fd/{folder}/shim.sock"  # the real path may be longer than an address can be
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
        os.close(folder)
        listener.listen(8)
        return listener

    def run(self, listener: socket.socket) -> None:
        """Serve until an agent requests the end, or until there was no agent for too long."""
        kernel.become_subreaper()
        identity = {"pid": os.getpid(), "start": kernel.start_time(os.getpid())}
        (self._directory / "shim.json").write_text(json.dumps(identity))
        wake_read, wake_write = socket.socketpair()
        wake_read.setblocking(False)
        wake_write.setblocking(False)
        # A signal writes into the socket, so that `select` returns. Python alone would run the handler and continue to
        # wait.
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end_all())
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(wake_read, selectors.EVENT_READ, self._drain_wakeups)
        self._supervisor.children.reap()
        while not self._done:
            for key, _ in self._selector.select(timeout=10.0):
                # An earlier callback of this round may have closed it.
                if key.fileobj in self._selector.get_map():
                    key.data(key.fileobj)
            self._supervisor.children.reap()
            self._exit_if_unused()
        self._supervisor.save()
        with contextlib.suppress(OSError):
            (self._directory / "shim.sock").unlink()
            (self._directory / "shim.json").unlink()

    def _drain_wakeups(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while wake.recv(4096):
                pass

    # Agents

    def _accept(self, listener: socket.socket) -> None:
        agent, _ = listener.accept()
        self._agents[agent] = b""
        self._selector.register(agent, selectors.EVENT_READ, self._receive)

    def _receive(self, agent: socket.socket) -> None:
        try:
            data = agent.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._lose(agent)
            return
        # The rest after the last newline is the beginning of a message that is still arriving.
        *lines, self._agents[agent] = (self._agents[agent] + data).split(b"\n")
        for line in lines:
            self._handle_request(agent, json.loads(line))

    def _lose(self, agent: socket.socket) -> None:
        if agent not in self._agents:
            return
        self._selector.unregister(agent)
        del self._agents[agent]
        agent.close()
        self._alone_since = time.monotonic()
        for container in self._supervisor.containers:
            if container.streams is not None:
                container.streams.ignore(agent)

    def _send(self, agent: socket.socket, message: dict[str, Any]) -> None:
        try:
            agent.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._lose(agent)

    def _exited(self, container: ShimContainer) -> None:
        for agent in tuple(self._agents):
            self._send(agent, {"exited": container.public()})

    # Requests

    def _handle_request(self, agent: socket.socket, request: dict[str, Any]) -> None:
        def answer(**fields: Any) -> None:
            if agent in self._agents:
                self._send(agent, {"tag": request["tag"], **fields})

        supervisor, verb = self._supervisor, request["do"]
        try:
            if verb == "list":
                answer(containers=[c.public() for c in supervisor.containers], pid=os.getpid(), protocol=PROTOCOL)
            elif verb == "start":
                supervisor.start(request, answer)
            elif verb == "signal":
                supervisor.signal(request["id"], request["number"])
                answer()
            elif verb == "remove":
                supervisor.remove(request["id"], answer)
            elif verb == "end":
                self._end_all()
                answer()
            else:
                self._handle_stream_request(agent, request, answer)
        except OSError as error:
            answer(error=str(error))

    def _handle_stream_request(self, agent: socket.socket, request: dict[str, Any], answer: Reply) -> None:
        container, verb = self._supervisor.find(request.get("id", "")), request["do"]
        streams = container.streams if container is not None else None
        if streams is None:
            answer(error=f"container {request.get('id')} does not run")
            return

        def send_output(stream: str, data: bytes) -> None:
            text = base64.b64encode(data).decode()
            self._send(agent, {"output": request["id"], "stream": stream, "data": text})

        if verb == "input":
            streams.write(base64.b64decode(request["data"]), answer)
            return
        answer()
        if verb == "attach":
            streams.listen(agent, send_output)
        elif verb == "detach":
            streams.ignore(agent)
            if container is not None and container.stdin_once:
                streams.close_input()
        elif verb == "pause":
            streams.pause(agent)
        elif verb == "resume":
            streams.resume(agent)
        elif verb == "close-input" and container is not None and container.stdin_once:
            streams.close_input()
        elif verb == "resize":
            streams.resize(request["width"], request["height"])

    # Leaving

    def _exit_if_unused(self) -> None:
        if self._agents:
            return
        alone = time.monotonic() - self._alone_since
        if not self._directory.exists() or alone > self._orphan_seconds:
            self._end_all()
        elif alone > _IDLE_SECONDS and self._supervisor.idle:
            self._done = True

    def _end_all(self) -> None:
        self._supervisor.end_all(self._clean_up)

    def _clean_up(self) -> None:
        self._done = True
        if not self._cgroup:
            return
        for controller in (_CGROUPS, *_CGROUPS.glob("*")):
            base = controller / self._cgroup.lstrip("/")
            # Those of single containers are there only if the container runtime could not remove them.
            for cgroup in (*base.glob("*/"), base):
                with contextlib.suppress(OSError):
                    cgroup.rmdir()
