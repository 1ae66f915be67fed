"""The process that holds a node's containers, so that they outlive the node agent.

A container's parent has to live as long as the container: it reads what the container writes, and only it learns the
exit code. An agent that was killed and started again must find both. So containers are children of this small program,
one per node, which does nothing but hold them. It stands on the standard library alone and is started as a plain script
(no site packages), because it is there all the time and its start counts.

It speaks JSON lines on a unix socket. Requests carry a ``tag``, which the answer repeats; ends of containers are sent
to whoever is connected. What must survive the keeper itself (labels, exit codes) is in files beside the socket. It
reads the machine's clock: here are real processes only, never virtual time.

As root it lives in a mount namespace of its own: root file systems of containers are overlays on the host's root,
writable layers are on a tmpfs, and all of it vanishes with the last process that uses it. In the same namespace the
unified cgroup hierarchy is hidden where the kernel has the old ones too, since crun refuses that mixture.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_CLONE_NEWNS: Final = 0x20000
_MS_RDONLY: Final = 1
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 1 << 19
_MNT_DETACH: Final = 2
_PR_SET_CHILD_SUBREAPER: Final = 36
_CHUNK: Final = 16 * 1024
_ROTATE_BYTES: Final = 10 * 1024 * 1024
_ROTATED_FILES: Final = 4
_IDLE_SECONDS: Final = 60.0
_UNIFIED: Final = "/sys/fs/cgroup/unified"

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = [os.fsencode(text) if text else None for text in (source, target, kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) if data else None), f"mount {target}")


def _unmount(target: str) -> None:
    _libc.umount2(os.fsencode(target), _MNT_DETACH)


class LogFile:
    """A container's log in the format of the container runtime interface, rotated by size (spec: node.md, 17.10)."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._fd).st_size
        self._rest: dict[str, bytes] = {}

    def write(self, stream: str, data: bytes) -> None:
        """Add what the container wrote; an unfinished line waits, one that is too long is cut into parts."""
        lines = (self._rest.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        head = f"{_timestamp(time.time_ns())} {stream} ".encode()
        out = bytearray()
        for line in lines:
            for start in range(0, max(len(line), 1), _CHUNK):
                tag = b"P " if start + _CHUNK < len(line) else b"F "
                out += head + tag + line[start : start + _CHUNK] + b"\n"
        while len(rest) > _CHUNK:
            out += head + b"P " + rest[:_CHUNK] + b"\n"
            rest = rest[_CHUNK:]
        if rest:
            self._rest[stream] = rest
        self._put(bytes(out))

    def finish(self, stream: str) -> None:
        """The stream has ended: what waits is written as it is."""
        rest = self._rest.pop(stream, b"")
        if rest:
            self._put(f"{_timestamp(time.time_ns())} {stream} P ".encode() + rest + b"\n")

    def _put(self, data: bytes) -> None:
        if not data:
            return
        with contextlib.suppress(OSError):  # a full disk must not end the container
            os.write(self._fd, data)
        self._size += len(data)
        if self._size > _ROTATE_BYTES:
            self._rotate()

    def _rotate(self) -> None:
        with contextlib.suppress(OSError):
            stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            self._path.rename(self._path.with_name(f"{self._path.name}.{stamp}"))
            old = sorted(self._path.parent.glob(f"{self._path.name}.*"))
            for path in old[:-_ROTATED_FILES]:
                path.unlink()
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            os.close(self._fd)
            self._fd, self._size = fd, 0

    def close(self) -> None:
        """No more will come."""
        os.close(self._fd)


def _timestamp(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"


class Container:
    """One container, from the request to start it until it is removed."""

    def __init__(self, container_id: str, request: dict[str, Any], directory: Path) -> None:
        self.id = container_id
        self.request = request
        self.directory = directory
        self.pid = 0
        self.started_at = 0.0
        self.exit: dict[str, Any] | None = None
        self.early_status: int | None = None
        self.memory_cgroup = ""
        self.log: LogFile | None = None
        self.streams: dict[int, str] = {}
        self.waiting: list[Callable[..., None]] = []

    @property
    def oci(self) -> bool:
        return bool(self.request["kind"] == "oci")

    @property
    def runtime(self) -> list[str]:
        return [*self.request["runtime"], "--log", str(self.directory / "runtime.log"), "--log-format", "json"]

    def public(self) -> dict[str, Any]:
        """What the agent is told."""
        return {
            "id": self.id,
            "label": self.request["label"],
            "pid": self.pid,
            "started_at": self.started_at,
            "exit": self.exit,
        }

    def save(self) -> None:
        """Write down what a later keeper has to know."""
        content = {"request": self.request, "pid": self.pid, "start": _start_time(self.pid)}
        content |= {"started_at": self.started_at, "exit": self.exit}
        temporary = self.directory / ".container.tmp"
        temporary.write_text(json.dumps(content))
        temporary.replace(self.directory / "container.json")


def _start_time(pid: int) -> str:
    """The kernel's start time of a process: with it, a process ID means one process only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


class Keeper:
    """Holds containers, serves agents."""

    def __init__(self, directory: Path, orphan_seconds: float) -> None:
        self._directory = directory
        self._rootfs = directory / "rootfs"
        self._orphan_seconds = orphan_seconds
        self._selector = selectors.DefaultSelector()
        self._containers: dict[str, Container] = {}
        self._children: dict[int, Callable[[int], None]] = {}
        self._unclaimed: dict[int, int] = {}
        self._agents: dict[socket.socket, bytes] = {}
        self._alone_since = time.monotonic()
        self._done = False

    # The outside

    def prepare(self) -> socket.socket:
        """Set up namespace and socket; when this returns, an agent can connect."""
        self._rootfs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            self._enter_namespace()
        self._recover()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        path = f"/proc/self/fd/{folder}/keeper.sock"  # the real path may be longer than an address can be
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
        os.close(folder)
        listener.listen(8)
        return listener

    def _enter_namespace(self) -> None:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
        _mount("none", "/", "", _MS_REC | _MS_SLAVE)
        if Path(_UNIFIED, "cgroup.controllers").exists():
            _unmount(_UNIFIED)
        _mount("tmpfs", str(self._rootfs), "tmpfs", 0, "mode=0700")

    def run(self, listener: socket.socket) -> None:
        """Serve until told to end, or until nobody needs it any more."""
        # Containers that their runtime lets go of become children of this process, not of init.
        _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        (self._directory / "keeper.json").write_text(
            json.dumps({"pid": os.getpid(), "start": _start_time(os.getpid())})
        )
        wake_read, wake_write = socket.socketpair()
        wake_read.setblocking(False)
        wake_write.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end_all())
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(wake_read, selectors.EVENT_READ, self._drain_wakeups)
        self._reap()
        while not self._done:
            for key, _ in self._selector.select(timeout=10.0):
                if key.fileobj in self._selector.get_map():
                    key.data(key.fileobj)
            self._reap()
            self._think_of_leaving()
        for container in self._containers.values():
            container.save()
        with contextlib.suppress(OSError):
            (self._directory / "keeper.sock").unlink()
            (self._directory / "keeper.json").unlink()

    def _drain_wakeups(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while wake.recv(4096):
                pass

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
        *lines, self._agents[agent] = (self._agents[agent] + data).split(b"\n")
        for line in lines:
            self._obey(agent, json.loads(line))

    def _lose(self, agent: socket.socket) -> None:
        if agent in self._agents:
            self._selector.unregister(agent)
            del self._agents[agent]
            agent.close()
            self._alone_since = time.monotonic()

    def _send(self, agent: socket.socket, message: dict[str, Any]) -> None:
        try:
            agent.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._lose(agent)

    def _tell_all(self, message: dict[str, Any]) -> None:
        for agent in tuple(self._agents):
            self._send(agent, message)

    def _think_of_leaving(self) -> None:
        if self._agents:
            return
        alone = time.monotonic() - self._alone_since
        if not self._directory.exists() or alone > self._orphan_seconds:
            self._end_all()
        elif alone > _IDLE_SECONDS and all(container.exit for container in self._containers.values()):
            self._done = True

    # Requests

    def _obey(self, agent: socket.socket, request: dict[str, Any]) -> None:
        def answer(**fields: Any) -> None:
            if agent in self._agents:
                self._send(agent, {"tag": request["tag"], **fields})

        verb = request["do"]
        try:
            if verb == "list":
                answer(containers=[c.public() for c in self._containers.values() if c.started_at], pid=os.getpid())
            elif verb == "start":
                self._start(request, answer)
            elif verb == "signal":
                self._signal(request["id"], request["number"])
                answer()
            elif verb == "remove":
                self._remove(request["id"], answer)
            elif verb == "end":
                self._end_all()
                answer()
            else:
                answer(error=f"unknown request {verb}")
        except OSError as error:
            answer(error=str(error))

    def _start(self, request: dict[str, Any], answer: Callable[..., None]) -> None:
        present = self._containers.get(request["id"])
        if present is not None and present.exit is None:
            # Asked for twice, by an agent and its successor: there is one container, and both are told of it.
            if present.started_at:
                answer(started_at=present.started_at, pid=present.pid)
            else:
                present.waiting.append(answer)
            return
        if present is not None:
            answer(error=f"container {request['id']} exists")
            return
        directory = self._directory / request["id"]
        directory.mkdir(mode=0o700, exist_ok=True)
        container = Container(request["id"], request, directory)
        container.waiting.append(answer)
        self._containers[container.id] = container
        try:
            container.log = LogFile(request["log"])
            if container.oci:
                self._create_oci(container)
            else:
                self._start_process(container)
        except OSError as error:
            self._fail(container, str(error))

    def _create_oci(self, container: Container) -> None:
        layers = self._rootfs / container.id
        for name in ("upper", "work", "merged"):
            (layers / name).mkdir(parents=True, exist_ok=True)
        options = f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"
        _mount("overlay", str(layers / "merged"), "overlay", 0, options)
        container.save()
        pid_file = container.directory / "pid"

        def created(status: int) -> None:
            if status != 0:
                self._fail(container, self._complaint(container))
                return
            container.pid = int(pid_file.read_text())
            container.memory_cgroup = _memory_cgroup(container.pid)
            self._claim(container)
            self._spawn([*container.runtime, "start", container.id], started)

        def started(status: int) -> None:
            if status != 0:
                self._fail(container, self._complaint(container))
                return
            self._running(container)

        outputs = self._open_streams(container)
        arguments = ["create", "--bundle", str(container.directory), "--pid-file", str(pid_file), container.id]
        self._spawn([*container.runtime, *arguments], created, outputs)
        for fd in outputs:
            os.close(fd)

    def _start_process(self, container: Container) -> None:
        outputs = self._open_streams(container)
        failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
        request = container.request
        pid = os.fork()
        if pid == 0:
            _become(request["argv"], request["env"], outputs, failed_write, cwd=request["cwd"])
        for fd in (*outputs, failed_write):
            os.close(fd)
        complaint = b"".join(iter(lambda: os.read(failed_read, 4096), b""))
        os.close(failed_read)
        container.pid = pid
        if complaint:
            self._children[pid] = lambda _: None
            self._fail(container, complaint.decode())
            return
        self._claim(container)
        self._running(container)

    def _claim(self, container: Container) -> None:
        """From now on the end of that process is the end of the container."""
        self._children[container.pid] = lambda status: self._ended(container, status)
        status = self._unclaimed.pop(container.pid, None)
        if status is not None:
            container.early_status = status

    def _running(self, container: Container) -> None:
        container.started_at = time.time()
        container.save()
        for answer in container.waiting:
            answer(started_at=container.started_at, pid=container.pid)
        container.waiting.clear()
        if container.early_status is not None:
            self._ended(container, container.early_status)

    def _complaint(self, container: Container) -> str:
        """The last thing that the container runtime wrote into its log."""
        try:
            last = (container.directory / "runtime.log").read_text(errors="replace").strip().rpartition("\n")[2]
            return str(json.loads(last)["msg"])
        except (OSError, ValueError, KeyError):
            return "the container runtime failed without a word"

    def _fail(self, container: Container, why: str) -> None:
        container.exit = {"code": 128, "signal": 0, "finished_at": time.time(), "reason": "StartError"}

        def removed(**_: Any) -> None:
            for answer in container.waiting:
                answer(error=why)

        self._remove(container.id, removed)

    def _signal(self, container_id: str, number: int) -> None:
        container = self._containers.get(container_id)
        if container is None or container.exit is not None or not container.pid:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL and not container.oci:
                os.killpg(container.pid, number)
            os.kill(container.pid, number)

    def _remove(self, container_id: str, answer: Callable[..., None]) -> None:
        container = self._containers.get(container_id)
        if container is None:
            answer()
            return

        def deleted(_: int) -> None:
            self._containers.pop(container_id, None)
            for fd in tuple(container.streams):
                self._close_stream(container, fd)
            layers = self._rootfs / container_id
            if container.oci:
                _unmount(str(layers / "merged"))
                shutil.rmtree(layers, ignore_errors=True)
            shutil.rmtree(container.directory, ignore_errors=True)
            answer()

        if container.oci:
            self._spawn([*container.runtime, "delete", "--force", container_id], deleted)
            return
        self._signal(container_id, signal.SIGKILL)
        deleted(0)

    def _end_all(self) -> None:
        """Kill and remove everything, then leave."""

        def gone(**_: Any) -> None:
            if not self._containers:
                self._leave_no_trace()

        for container_id in tuple(self._containers):
            self._signal(container_id, signal.SIGKILL)
            self._remove(container_id, gone)
        gone()

    def _leave_no_trace(self) -> None:
        self._done = True
        parent = Path(sys.argv[3]) if len(sys.argv) > 3 else None
        if parent is not None:
            for controller in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")):
                with contextlib.suppress(OSError):
                    (controller / str(parent).lstrip("/")).rmdir()

    # Children

    def _spawn(self, argv: list[str], done: Callable[[int], None], outputs: tuple[int, int] | None = None) -> None:
        """Run a command; its own complaints go nowhere, it has a log file for them."""
        pid = os.fork()
        if pid == 0:
            _become(argv, dict(os.environ), outputs, None, cwd="/")
        self._children[pid] = done

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            done = self._children.pop(pid, None)
            if done is not None:
                done(os.waitstatus_to_exitcode(status))
            else:
                self._unclaimed[pid] = os.waitstatus_to_exitcode(status)
                while len(self._unclaimed) > 1000:
                    del self._unclaimed[next(iter(self._unclaimed))]

    def _ended(self, container: Container, status: int) -> None:
        if not container.started_at:
            container.early_status = status
            return
        if container.exit is not None or container.id not in self._containers:
            return
        for fd in tuple(container.streams):
            self._read_stream(container, fd)
        if not container.oci:
            with contextlib.suppress(OSError):
                os.killpg(container.pid, signal.SIGKILL)
        number = -status if status < 0 else 0
        code = 128 + number if number else status
        reason = "OOMKilled" if number == signal.SIGKILL and _oom_killed(container.memory_cgroup) else ""
        container.exit = {"code": code, "signal": number, "finished_at": time.time(), "reason": reason}
        container.save()
        self._tell_all({"exited": container.public()})

    # Output

    def _open_streams(self, container: Container) -> tuple[int, int]:
        """Pipes for standard output and error; answers the ends that the container gets."""
        ends = []
        for name in ("stdout", "stderr"):
            read, write = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(read, False)
            container.streams[read] = name
            self._selector.register(read, selectors.EVENT_READ, lambda fd: self._read_stream(container, fd))
            ends.append(write)
        return ends[0], ends[1]

    def _read_stream(self, container: Container, fd: int) -> None:
        log = container.log
        while fd in container.streams and log is not None:
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._close_stream(container, fd)
                return
            log.write(container.streams[fd], data)

    def _close_stream(self, container: Container, fd: int) -> None:
        name = container.streams.pop(fd)
        self._selector.unregister(fd)
        os.close(fd)
        if container.log is not None:
            container.log.finish(name)
            if not container.streams:
                container.log.close()
                container.log = None

    # What an earlier keeper left

    def _recover(self) -> None:
        """Containers of a keeper that died cannot be held any more: what still runs of them is ended."""
        for path in sorted(self._directory.glob("*/container.json")):
            try:
                content = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            container = Container(path.parent.name, content["request"], path.parent)
            container.pid, container.started_at = content["pid"], content["started_at"]
            container.exit = content["exit"]
            if container.exit is None:
                if container.pid and _start_time(container.pid) == content["start"]:
                    self._kill_orphan(container)
                container.exit = {
                    "code": 137,
                    "signal": 0,
                    "finished_at": time.time(),
                    "reason": "ContainerStatusUnknown",
                }
            self._containers[container.id] = container
            container.save()

    def _kill_orphan(self, container: Container) -> None:
        with contextlib.suppress(OSError):
            if not container.oci:
                os.killpg(container.pid, signal.SIGKILL)
            os.kill(container.pid, signal.SIGKILL)


def _memory_cgroup(pid: int) -> str:
    """Where the kernel counts out-of-memory kills of a process: cgroup v1's memory hierarchy, else the unified one."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return ""
    paths = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines}
    if "memory" in paths:
        return f"/sys/fs/cgroup/memory{paths['memory']}/memory.oom_control"
    return f"/sys/fs/cgroup{paths['']}/memory.events" if "" in paths else ""


def _oom_killed(counter: str) -> bool:
    try:
        lines = Path(counter).read_text().splitlines() if counter else []
    except OSError:
        return False
    return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)


def _become(
    argv: list[str], env: dict[str, str], outputs: tuple[int, int] | None, failed: int | None, *, cwd: str
) -> None:
    """In a child: turn into a command. Never returns."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        out, err = outputs or (null, null)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        if failed is not None:
            what = f'exec: "{argv[0]}": '
            text = (
                "executable file not found in $PATH" if error.errno == errno.ENOENT else os.strerror(error.errno or 0)
            )
            os.write(failed, (what + text).encode())
    finally:
        os._exit(127)


def main() -> None:
    """``keeper.py DIRECTORY ORPHAN_SECONDS [CGROUP]``: goes into the background once it can be reached."""
    directory = Path(sys.argv[1])
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    keeper = Keeper(directory, float(sys.argv[2]))
    listener = keeper.prepare()
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    keeper.run(listener)


if __name__ == "__main__":
    main()
