"""The shim as a program: goes into the background once it can be reached."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from pathlib import Path
from typing import Final

from cathedra.node.faultpoints import FaultPoints
from cathedra.node.shim.server import ShimServer

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
