"""Processes of one container or command, found in /proc and killed.

Where there is neither a PID namespace nor a cgroup of its own, the kernel keeps a container's processes together by
their session alone, which any of them may leave. So they are also recognized by a variable of the environment that they
were started with. A process is signalled through a descriptor (pidfd), so that a number that was given to another
process meanwhile is not mistaken for it. This module uses the standard library only, as the shim does.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

Belongs = Callable[[int], bool]
"""Return True if the process with that ID is meant. A process that has ended is not."""

_KILL_SECONDS: Final = 2.0
"""Longest wait for processes that were killed: one in an uninterruptible system call ends when the call does."""
_STATE, _PARENT, _SESSION = 0, 1, 3
"""Fields of /proc/PID/stat behind the name."""
_ENDED: Final = frozenset("ZX")


def in_session(*sessions: int) -> Belongs:
    """Match the living processes of these sessions."""
    wanted = frozenset(sessions) - {0, -1}
    return lambda pid: process_session(pid) in wanted


def in_sessions_below(ancestor: int) -> Belongs:
    """Match ``ancestor``, the living processes below it, and all of the sessions that these are in or will begin.

    A process may leave its session after this call: ``setsid`` does so a moment after it was started. The number of a
    session is that of the process that began it. Of the caller's own session only the processes below ``ancestor``
    match: those that have not left it yet.
    """
    own, below = os.getsid(0), descendants(ancestor)
    of_sessions = in_session(*{*below, *map(process_session, below)} - {own})
    return lambda pid: of_sessions(pid) or (pid in below and process_session(pid) == own)


def process_session(pid: int) -> int:
    """Return the session of a living process; -1 if there is no such process."""
    fields = _stat(pid)
    return int(fields[_SESSION]) if fields else -1


def in_cgroup(cgroup: str) -> Belongs:
    """Match the processes of a cgroup, and of those below it, in whatever hierarchy it is."""

    def belongs(pid: int) -> bool:
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            return False
        # Where the agent itself is in a cgroup namespace, the path may begin elsewhere.
        return any(f"{cgroup}/" in f"{line}/" for line in lines) and process_session(pid) >= 0

    return belongs


def has_variable(assignment: str) -> Belongs:
    """Match processes that were started with ``NAME=VALUE`` in their environment."""
    wanted = b"\0" + os.fsencode(assignment) + b"\0"

    def belongs(pid: int) -> bool:
        try:
            return wanted in b"\0" + Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
        except OSError:
            return False  # it has ended, or belongs to another user

    return belongs


def writes_to(*pipes: int) -> Belongs:
    """Match processes that have one of these pipes, given by their inodes, open for writing."""
    wanted = {f"pipe:[{inode}]" for inode in pipes}

    def belongs(pid: int) -> bool:
        try:
            ends = list(os.scandir(f"/proc/{pid}/fd"))
        except OSError:
            return False
        return any(_target(end.path) in wanted and _writable(end) for end in ends)

    return belongs


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # closed meanwhile


def _writable(end: os.DirEntry[str]) -> bool:
    """Return True if the file is open for writing: the permissions of the link are the mode in which it is open."""
    try:
        return bool(end.stat(follow_symlinks=False).st_mode & 0o200)
    except OSError:
        return False


def descendants(*ancestors: int) -> set[int]:
    """Return the living processes below ``ancestors``, these included."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        if fields := _stat(pid):
            children.setdefault(int(fields[_PARENT]), []).append(pid)
    found, left = set[int](), list(ancestors)
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, ())
    return found


def matching(belongs: Belongs) -> set[int]:
    """Return all processes but this one that match."""
    return {pid for pid in _processes() if pid != os.getpid() and belongs(pid)}


def signal_all(belongs: Belongs, number: int) -> list[int]:
    """Send a signal to every process that matches, and return descriptors that become readable when they end.

    The caller closes the descriptors.
    """
    descriptors = []
    for pid in matching(belongs):
        with contextlib.suppress(OSError):
            descriptors.append(_signal(pid, number, belongs))
    return descriptors


def kill(belongs: Belongs) -> None:
    """Kill every process that matches, and those that they start meanwhile; return when they have ended."""
    until = time.monotonic() + _KILL_SECONDS
    while descriptors := signal_all(belongs, signal.SIGKILL):
        _wait_ended(descriptors, until)
        if time.monotonic() >= until:
            return


def _signal(pid: int, number: int, belongs: Belongs) -> int:
    descriptor = os.pidfd_open(pid)
    try:
        if not belongs(pid):
            raise ProcessLookupError(pid)  # its number had been given to another process
        signal.pidfd_send_signal(descriptor, number)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _wait_ended(descriptors: Iterable[int], until: float) -> None:
    poll, left = select.poll(), set(descriptors)
    for descriptor in left:
        poll.register(descriptor, select.POLLIN)
    try:
        while left and (seconds := until - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(seconds * 1000):
                poll.unregister(descriptor)
                os.close(descriptor)
                left.discard(descriptor)
    finally:
        for descriptor in left:
            os.close(descriptor)


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _stat(pid: int) -> list[str]:
    """Return the fields behind the name; [] for a process that has ended, even if its parent has not noticed yet."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[_STATE] in _ENDED else fields
