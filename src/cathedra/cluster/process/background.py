"""A cluster in the background: started so that the caller knows when it is ready, stopped so that it is really gone."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.signals import held_back
from cathedra.files.private import private_directory, private_file

__all__ = ["READY", "StartError", "last_words", "start", "stop"]

READY = "ready"
"""The line with which the child ends its report."""


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

    A cluster that has not ended after ``seconds`` is killed: what it acknowledged is on disk.
    """
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
