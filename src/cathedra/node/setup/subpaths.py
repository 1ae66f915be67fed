"""A path inside a volume, made and resolved without ever leaving the volume.

What is in a volume belongs to the pods that write it, and the node walks it as root. So each step is taken from the
directory that the last one has opened, and no step follows a link by itself: links are resolved here, and one that
leads out of the volume is an error. A container that swaps directories for links meanwhile cannot make the node create
anything elsewhere, because the walk holds descriptors, not names (as kubelet's ``subpath`` package does).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cathedra.node.setup.errors import ContainerConfigError

__all__ = ["make_subpath", "opened_subpath"]

_LINKS: Final = 40
"""How many links a path may have, as in the kernel."""
_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o2777
"""What a directory that is made takes over of the volume's own permissions."""


def make_subpath(volume: Path, subpath: str) -> str:
    """The path of ``subpath`` in ``volume``, without links; directories that are missing are made, as the volume is.

    Raises:
        ConfigError: it leads out of the volume.
        OSError: a directory cannot be made or opened.
    """
    with opened_subpath(volume, subpath) as descriptor:
        return os.readlink(f"/proc/self/fd/{descriptor}")


@contextlib.contextmanager
def opened_subpath(volume: Path, subpath: str) -> Iterator[int]:
    """A descriptor (``O_PATH``) of ``subpath`` in ``volume``; see `make_subpath`."""
    if Path(subpath).is_absolute() or ".." in Path(subpath).parts:
        raise ContainerConfigError(f'subPath "{subpath}" must be a relative path without ..')
    walk = _Walk(volume, subpath)
    try:
        yield walk.to_the_end()
    finally:
        walk.close()


class _Walk:
    """The directories from a volume down to where the walk is, each as a descriptor."""

    def __init__(self, volume: Path, subpath: str) -> None:
        self._subpath = subpath
        self._open = [os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._mode = stat.S_IMODE(os.fstat(self._open[0]).st_mode) & _MODE
        self._links = 0

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def to_the_end(self) -> int:
        """Take all steps; answers the last descriptor, which stays the walk's."""
        ahead = _steps(self._subpath)
        while ahead:
            step = ahead.pop()
            if step == "..":
                self._back()
                continue
            descriptor = self._enter(step)
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                self._open.append(descriptor)
                continue
            try:
                target = os.readlink("", dir_fd=descriptor)
            finally:
                os.close(descriptor)
            ahead += self._resolved(target)
        return self._open[-1]

    def _enter(self, name: str) -> int:
        parent = self._open[-1]
        try:
            return os.open(name, _STEP, dir_fd=parent)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        os.fchmod(made, self._mode)  # whatever the umask is
        return made

    def _back(self) -> None:
        if len(self._open) == 1:
            raise self._outside()
        os.close(self._open.pop())

    def _resolved(self, target: str) -> list[str]:
        self._links += 1
        if target.startswith("/") or self._links > _LINKS:
            raise self._outside()
        return _steps(target)

    def _outside(self) -> ContainerConfigError:
        return ContainerConfigError(f'subPath "{self._subpath}" leads out of the volume')


def _steps(path: str) -> list[str]:
    """The steps of a path, the first one last."""
    return [step for step in reversed(path.split("/")) if step not in {"", "."}]
