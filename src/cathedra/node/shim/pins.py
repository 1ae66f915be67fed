"""Pins: sub-paths of volumes, mounted at paths that no container can change, from creation until the container runs.

A container runtime receives names, and resolves them when it mounts. The names inside a volume belong to the pods that
write it: between the node's check of ``subPath`` and the runtime's mount, a directory may have become a link to the
host. The shim therefore opens the sub-path step by step, follows no link, mounts what it has opened at a path of its
own, and passes that path to the runtime (kubelet does the same). The mounts are in the shim's mount namespace,
invisible to the host.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any

from cathedra.node.shim import kernel


def pin_path(directory: Path, container_id: str, number: int) -> Path:
    """Return the path of the pin of a container's mount number, below ``directory``."""
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
    """Remove a container's pins, if there are any. Its mounts of them stay."""
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
