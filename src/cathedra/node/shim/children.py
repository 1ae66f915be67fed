"""Child processes of the shim: commands of the container runtime, and containers that are plain processes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from cathedra.node.shim import kernel

_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class ChildStreams:
    """The ends of pipes or of a terminal that a child gets; None is /dev/null."""

    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    terminal: bool = False

    def close(self) -> None:
        """Close the ends that the child has now."""
        for fd in {self.stdin, self.stdout, self.stderr} - {None}:
            assert fd is not None
            os.close(fd)


NOTHING: Final = ChildStreams()


class Children:
    """Callbacks for the ends of child processes."""

    def __init__(self) -> None:
        self._waiting: dict[int, Callable[[int], None]] = {}
        self._unclaimed: dict[int, int] = {}

    def run(self, argv: Sequence[str], done: Callable[[int], None], streams: ChildStreams = NOTHING) -> None:
        """Run a command; ``done`` is called with its exit status. Its output is dropped: it has a log of its own.

        It is killed if this process dies: a container that is half made must not be completed behind the back of the
        shim that takes over.
        """
        self._waiting[_fork_command(argv, streams)] = done

    def claim(self, pid: int, ended: Callable[[int], None]) -> int | None:
        """From now on ``ended`` is called at the end of that process; its exit status, if it has ended already."""
        self._waiting[pid] = ended
        return self._unclaimed.pop(pid, None)

    def reap(self) -> None:
        """Collect all that have ended since the last time."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            ended = self._waiting.pop(pid, None)
            if ended is not None:
                ended(code)
                continue
            # It may end before `claim`: a process that the runtime has created is adopted only when its ID is read.
            self._unclaimed[pid] = code
            # As sub-reaper this process also inherits processes that are never claimed.
            while len(self._unclaimed) > _REMEMBERED:
                del self._unclaimed[next(iter(self._unclaimed))]


def run_to_end(argv: Sequence[str]) -> int:
    """Run a command and wait for its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(_fork_command(argv, NOTHING), 0)[1])


def _fork_command(argv: Sequence[str], streams: ChildStreams) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        # Set in the child, and the parent's ID is passed: if the parent is gone already, no signal would come.
        kernel.die_with_parent(parent)
        _become(argv, os.environ, streams, None, "/")
    return pid


def start_process(
    argv: Sequence[str],
    environment: Mapping[str, str],
    cwd: str,
    streams: ChildStreams,
    *,
    forked: Callable[[int], None] = lambda _: None,
) -> tuple[int, str]:
    """Start a command in a session of its own; its process ID, and why it could not be executed ("" if it could).

    ``forked`` is called with the process ID before the command is executed. If this process dies until then, it never
    is.
    """
    go_read, go_write = os.pipe2(os.O_CLOEXEC)
    failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        # The parent closes the pipe without a byte if it dies: a program must not run without a record of it.
        if not os.read(go_read, 1):
            os._exit(127)
        _become(argv, environment, streams, failed_write, cwd)
    # Closed here, so that reading ends when the child has executed the command: its copy closes then.
    os.close(failed_write)
    os.close(go_read)
    try:
        forked(pid)
        os.write(go_write, b"g")
    finally:
        os.close(go_write)
    with os.fdopen(failed_read, "rb") as problem:
        return pid, problem.read().decode()


def _become(
    argv: Sequence[str], environment: Mapping[str, str], streams: ChildStreams, failed: int | None, cwd: str
) -> NoReturn:
    """In a child: turn into a command."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for number, fd in enumerate((streams.stdin, streams.stdout, streams.stderr)):
            os.dup2(null if fd is None else fd, number)
        if streams.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for signal_number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(signal_number, signal.SIG_DFL)
        os.chdir(cwd)
        os.execvpe(argv[0], list(argv), dict(environment))
    except OSError as error:
        if failed is not None:
            missing = error.errno == errno.ENOENT
            why = "executable file not found in $PATH" if missing else os.strerror(error.errno or 0)
            os.write(failed, f'exec: "{argv[0]}": {why}'.encode())
    finally:
        os._exit(127)
