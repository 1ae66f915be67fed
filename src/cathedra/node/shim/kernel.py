"""Kernel interfaces that the standard library lacks: mounts, namespaces, sub-reapers, cgroups of processes."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Final

_CLONE_NEWNS: Final = 0x20000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 1 << 19
_MNT_DETACH: Final = 2
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = [os.fsencode(text) if text else None for text in (source, target, kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) if data else None), f"mount {target}")


def enter_mount_namespace() -> None:
    """Keep mounts made from now on to this process and its children; those of the host still arrive.

    Raises:
        OSError: this process may not do that.
    """
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", "", _MS_REC | _MS_SLAVE)


def mount_tmpfs(target: str, size: int = 0) -> None:
    """Mount a file system in memory, for root alone; ``size`` in bytes, 0: as much as the kernel gives by itself.

    Raises:
        OSError: it cannot be mounted.
    """
    _mount("tmpfs", target, "tmpfs", 0, f"mode=0700,size={size}" if size else "mode=0700")


def mount_bind(source: str, target: str) -> None:
    """Mount a file or directory, with all that is mounted below it, at another place.

    Raises:
        OSError: it cannot be mounted.
    """
    _mount(source, target, "", _MS_BIND | _MS_REC)


def mount_overlay(target: str, upper: str, work: str) -> None:
    """Mount the host's root file system, below a writable layer.

    Raises:
        OSError: it cannot be mounted.
    """
    _mount("overlay", target, "overlay", 0, f"lowerdir=/,upperdir={upper},workdir={work}")


def unmount(target: str) -> None:
    """Unmount lazily: the mount disappears when no process uses it. It is no error if nothing is mounted."""
    _libc.umount2(os.fsencode(target), _MNT_DETACH)


def become_subreaper() -> None:
    """Become the parent of orphaned descendants, instead of init."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent(parent: int) -> None:
    """In a child: be killed when ``parent`` ends, now if it has ended already."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(127)


def start_time(pid: int) -> str:
    """Return the kernel's start time of a process: with it, a process ID means one process only. "" if there is
    none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def memory_cgroup(pid: int) -> str:
    """Return the cgroup that counts a process's OOM kills: cgroup v1's memory hierarchy, otherwise the unified one."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return ""
    paths = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines}
    if "memory" in paths:
        return f"/sys/fs/cgroup/memory{paths['memory']}/memory.oom_control"
    return f"/sys/fs/cgroup{paths['']}/memory.events" if "" in paths else ""


def oom_killed(counter: str) -> bool:
    """Return True if that file counts a process killed for want of memory."""
    try:
        lines = Path(counter).read_text().splitlines() if counter else []
    except OSError:
        return False
    return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)
