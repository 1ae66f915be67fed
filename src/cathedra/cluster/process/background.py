"""A cluster in the background: started until it is ready, changed while it runs, stopped until it is gone.

Changes arrive at a unix socket in the data directory, which only its owner can reach: one line of JSON. The answer is
lines of progress, and at the end `READY`, or an error.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from cathedra.api.status import StatusError
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.signals import held_back
from cathedra.files.private import private_directory, private_file
from cathedra.profiles import ProfileError

SERVER_PROGRAM: Final = "cathedra.cluster.apiservers.program"
"""The program of an API server beside that of the first process."""
READY = "ready"
"""The line with which the child ends its report."""
_ERROR: Final = "error: "
_MAX_REQUEST: Final = 1 << 20
"""Bytes of the longest change."""


class StartError(InvalidOption):
    """The cluster ended before it was ready."""


def start(arguments: Sequence[str], log: Path, progress: Callable[[str], None]) -> int:
    """Start ``cathedra up`` with ``arguments`` in its own session and wait until it is ready; its pid.

    The child reports over a pipe, line by line; each line goes to ``progress``. Its output goes to ``log``.

    Raises:
        StartError: it ended first; the text has the last line it printed.
    """
    private_directory(log.parent)
    private_file(log)
    pid = 0
    try:
        # An interruption in here would lose the child's process ID, and with it the child.
        with held_back():
            pid, report = _spawn(arguments, log)
        with report:
            for line in report:
                if line.strip() == READY:
                    return pid
                progress(line.rstrip("\n"))
        code = _wait(pid)
    except BaseException:
        # Interrupted while waiting: a cluster that nothing waits for must not stay behind.
        if pid:
            os.kill(pid, signal.SIGTERM)
            _wait(pid)
        raise
    why = last_words(log.read_text(errors="replace"))
    raise StartError(f"the cluster ended with code {code} before it was ready: {why} (all of it: {log})")


class ClusterChange(msgspec.Struct, frozen=True):
    """A change of a running cluster: its nodes, and the description to keep when they are there."""

    nodes: tuple[str, ...]
    """As the option ``--nodes`` takes them."""
    name: str
    spec: dict[str, Any]


Say = Callable[[str], None]
"""Receives lines of progress."""


@asynccontextmanager
async def changes_served(path: Path, carry_out: Callable[[ClusterChange, Say], Awaitable[None]]) -> AsyncIterator[None]:
    """Carry out the changes that arrive at the socket ``path``, one after the other."""
    lock = asyncio.Lock()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            change = msgspec.json.decode(await reader.readline(), type=ClusterChange)
            # Two changes at a time could add and drain the same node.
            async with lock:
                await carry_out(change, lambda line: writer.write(f"{line}\n".encode()))
            writer.write(f"{READY}\n".encode())
        except (InvalidOption, ProfileError, StatusError, OSError, msgspec.MsgspecError) as error:
            writer.write(f"{_ERROR}{' '.join(str(error).split())}\n".encode())
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_unix_server(connected, path, limit=_MAX_REQUEST)
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def change(path: Path, wanted: ClusterChange, progress: Say) -> None:
    """Change the cluster behind the socket ``path``, and wait until that is done.

    Raises:
        InvalidOption: the cluster refuses, ended meanwhile, or takes no changes.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.fspath(path))
        except OSError as error:
            raise InvalidOption(f"the running cluster takes no changes ({path}: {error.strerror})") from error
        connection.sendall(msgspec.json.encode(wanted) + b"\n")
        with connection.makefile(encoding="utf-8") as answer:
            for line in map(str.rstrip, answer):
                if line == READY:
                    return
                if line.startswith(_ERROR):
                    raise InvalidOption(line.removeprefix(_ERROR))
                progress(line)
    raise InvalidOption("the cluster ended before it was changed")


def _spawn(arguments: Sequence[str], log: Path) -> tuple[int, TextIO]:
    """Return the child's process ID and the pipe of its report.

    `subprocess.Popen` polls its child when it is finalized, and an interruption at that moment is lost.
    """
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    command = [sys.executable, "-m", "cathedra.cli.main", "up", *arguments, "--report-fd", str(writing)]
    files = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.fspath(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    )
    try:
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=files, setsid=True)
    finally:
        # Only the child holds the writing end now, so that its death ends the report.
        os.close(writing)
    return pid, os.fdopen(reading)


def _wait(pid: int) -> int:
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def last_words(printed: str) -> str:
    """Return the last meaningful line of a log, skipping the frames around tracebacks of several errors."""
    spoken = [line for line in printed.splitlines() if any(map(str.isalnum, line))]
    return spoken[-1].strip(" |").removeprefix("cathedra: ") if spoken else "it printed nothing"


def stop(data_dir: DataDir, seconds: float = 30.0) -> int | None:
    """Stop the cluster on ``data_dir`` and wait for its end. Return its PID; None if it was not running.

    A cluster that has not ended after ``seconds`` is killed: what it acknowledged is on disk. Networks of pods that a
    killed cluster has left in the kernel are removed.
    """
    pid = _end(data_dir, seconds)
    if data_dir.holder() is None:
        from cathedra.node.runtime.podnetworks import remove_networks  # start-up time: for commands that stop alone

        for networks in data_dir.path.glob("nodes/*/networks"):
            remove_networks(networks)
    return pid


def _end(data_dir: DataDir, seconds: float) -> int | None:
    pid = data_dir.holder()
    if pid is None:
        return None
    try:
        # A PID may be given to another process meanwhile; a pidfd cannot.
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], seconds)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], seconds)
    finally:
        os.close(handle)
    return pid


def count_servers(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the number of API servers of the cluster whose first process has this id: that, and its children that
    serve beside it."""
    children = [child for listed in proc.glob(f"{pid}/task/*/children") for child in _words(listed)]
    return 1 + sum(word == SERVER_PROGRAM for child in children for word in _words(proc / child / "cmdline"))


def _words(file: Path) -> list[str]:
    """Return the words of a file of a process; none if that has ended."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").replace("\0", " ").split()
    except OSError:
        return []
