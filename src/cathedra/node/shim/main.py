"""The shim as a program: goes into the background once it can be reached."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from pathlib import Path
from typing import Final

from cathedra.node.shim.server import ShimServer

__all__ = ["main"]

_PATIENCE: Final = 10.0


def main() -> None:
    """Arguments: the directory, the seconds for which containers go on without an agent, the cgroup ("" for none)."""
    directory = Path(sys.argv[1])
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _alone(directory):
        _wait_for_the_other(directory)
        return
    server = ShimServer(directory, float(sys.argv[2]), sys.argv[3])
    listener = server.prepare()
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    server.run(listener)


def _alone(directory: Path) -> bool:
    """Whether this is the directory's only shim, and for as long as it lives.

    An agent that is killed right after it has started a shim leaves one that is not there yet; its successor starts
    another. Two of them would take each other's socket away.
    """
    lock = os.open(directory / "shim.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True


def _wait_for_the_other(directory: Path) -> None:
    """Return when the other shim can be reached; leave with an error if that takes too long."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(f"/proc/self/fd/{folder}/shim.sock")
                return
        except OSError:
            time.sleep(0.02)
        finally:
            os.close(folder)
    sys.exit(f"another shim holds {directory} and does not answer")
