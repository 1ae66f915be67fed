"""Parts of volumes, mounted at paths that no container can change, from before a container is made until it runs.

A container runtime is given names, and resolves them when it mounts. The names inside a volume belong to the pods that
write it: between the node's look at ``subPath`` and the runtime's mount, a directory may have become a link to the
host. So the shim opens the part step by step, follows no link, and mounts what it has opened at a path of its own; the
runtime is told that path (kubelet does the same). The shim's mount namespace is its own, so the host sees none of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any

from cathedra.node.shim import kernel

__all__ = ["mount_pins", "pin_path", "release_pins"]


def pin_path(directory: Path, container_id: str, number: int) -> Path:
    """Where the part of a volume is mounted that is a container's mount of that number; below ``directory``."""
    return directory / "pins" / container_id / str(number)


def mount_pins(directory: Path, container_id: str, pins: list[dict[str, Any]]) -> None:
    """Mount each ``{"number", "volume", "part"}``; ``part`` is a path without links.

    Raises:
        OSError: a part is missing, has become a link, or cannot be mounted.
    """
    for pin in pins:
        target = pin_path(directory, container_id, pin["number"])
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            part = _open_part(pin["volume"], pin["part"], opened)
            if stat.S_ISDIR(os.fstat(part).st_mode):
                target.mkdir(mode=0o700, exist_ok=True)
            else:
                target.touch(mode=0o600)
            kernel.mount_bind(f"/proc/self/fd/{part}", str(target))


def release_pins(directory: Path, container_id: str) -> None:
    """Take a container's pins away; what it has mounted of them by then stays mounted in it. None is no error."""
    folder = pin_path(directory, container_id, 0).parent
    with contextlib.suppress(FileNotFoundError):
        for target in folder.iterdir():
            kernel.unmount(str(target))
            # Never more than the empty place itself: if it is a mount point still, this fails and nothing is lost.
            with contextlib.suppress(OSError):
                target.rmdir() if target.is_dir() else target.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def _open_part(volume: str, part: str, opened: contextlib.ExitStack) -> int:
    descriptor = os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    for step in filter(None, part.split("/")):
        descriptor = os.open(step, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        opened.callback(os.close, descriptor)
        if step == ".." or stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, f"{part} of {volume} is not what it was when it was looked at")
    return descriptor
