"""A cluster in the background: started so that the caller knows when it is ready, stopped so that it is really gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
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
    reading, writing = os.pipe()
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "cathedra.cli.main", "up", *arguments, "--report-fd", str(writing)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            start_new_session=True,
        )
    os.close(writing)
    try:
        with os.fdopen(reading) as report:
            for line in report:
                if line.strip() == READY:
                    return child.pid
                progress(line.rstrip("\n"))
        code = child.wait()
    except BaseException:
        # Interrupted while waiting: a cluster that nothing waits for must not stay behind.
        child.terminate()
        child.wait()
        raise
    why = last_words(log.read_text(errors="replace"))
    raise StartError(f"the cluster ended with code {code} before it was ready: {why} (all of it: {log})")


def last_words(printed: str) -> str:
    """The last line of a log that says something; that of a traceback of several errors is a frame without a word."""
    spoken = [line for line in printed.splitlines() if any(map(str.isalnum, line))]
    return spoken[-1].strip(" |").removeprefix("cathedra: ") if spoken else "it printed nothing"


def stop(data_dir: DataDir, seconds: float = 30.0) -> int | None:
    """Ask the cluster on ``data_dir`` to stop and wait until it has; its pid, or None if none was running.

    A cluster that has not ended after ``seconds`` is killed: what it acknowledged is on disk.
    """
    pid = data_dir.holder()
    if pid is None:
        return None
    try:
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
