"""Linux' file notifications on the event loop, and waiting for a condition over files.

A thin layer over the three system calls of inotify, through the C library: names that appear in or vanish from a
directory, and writes of its files. `wait_for_files` evaluates a condition after each change of the directories.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_MODIFY: Final = 0x2
_MOVED_FROM: Final = 0x40
_MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_DIRECTORY: Final = 0x40000000
_ONLYDIR: Final = 0x01000000
_HEADER: Final = struct.Struct("iIII")


class Notification(NamedTuple):
    """A file appeared (or, if not ``created``, vanished). ``path`` None: events were lost, read the directory."""

    path: Path | None
    created: bool
    is_directory: bool


class Inotify:
    """Watches directories, without their subdirectories.

    Raises:
        OSError: the kernel has no inotify, or none to spare.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._directories: dict[int, Path] = {}
        self.fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def _checked(self, result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def watch(self, directory: Path, *, writes: bool = False) -> None:
        """Report names that appear in or vanish from ``directory``; with ``writes`` also files that are written."""
        mask = _CREATE | _DELETE | _MOVED_FROM | _ONLYDIR | (_MODIFY | _MOVED_TO if writes else 0)
        watch = self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(directory), mask))
        self._directories[watch] = directory

    def watches(self, directory: Path) -> bool:
        """Return whether ``directory`` is watched. The kernel ends the watch of one that was removed."""
        return directory in self._directories.values()

    def unwatch(self, directory: Path) -> None:
        """Stop watching ``directory``. It is no error if it is not watched or deleted."""
        for watch in [watch for watch, watched in self._directories.items() if watched == directory]:
            del self._directories[watch]
            self._libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> Iterator[Notification]:
        """Yield the events since the last call, without waiting."""
        try:
            data = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return
            raise
        position = 0
        while position < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, position)
            name = data[position + _HEADER.size : position + _HEADER.size + length].rstrip(b"\0")
            position += _HEADER.size + length
            if mask & _OVERFLOW:
                yield Notification(None, created=True, is_directory=False)
            # The kernel has removed the watch because the directory was deleted.
            elif mask & _IGNORED:
                self._directories.pop(watch, None)
            elif watch in self._directories:
                path = self._directories[watch] / os.fsdecode(name)
                yield Notification(path, not mask & (_DELETE | _MOVED_FROM), bool(mask & _DIRECTORY))

    def close(self) -> None:
        """Stop watching, and close the descriptor."""
        os.close(self.fd)


_POLL_SECONDS: Final = 1.0
"""Between two evaluations where the kernel has no inotify, or none to spare."""


def _is_any(notification: Notification) -> bool:
    return True


def is_removal(notification: Notification) -> bool:
    """Return True if a file may be missing after the event, or a directory has to be watched again."""
    path = notification.path
    if path is None or notification.is_directory:
        return True
    # Each atomic write renames its temporary file (`cathedra.files.atomic`), which is no removal.
    return not notification.created and not (path.name.startswith(".") and path.suffix == ".tmp")


async def wait_for_files(
    condition: Callable[[], bool],
    directories: Sequence[Path],
    relevant: Callable[[Notification], bool] = _is_any,
) -> None:
    """Return once ``condition`` holds.

    It is evaluated at the beginning, and after each name that appears in, or vanishes from, one of ``directories``, if
    the event is ``relevant``. Directories need not exist: name their parents too, so that their own coming and going is
    noticed.
    """
    try:
        inotify = Inotify()
    except OSError:
        while not condition():  # noqa: ASYNC110 - without inotify there is no event
            await asyncio.sleep(_POLL_SECONDS)
        return
    try:
        while True:
            for directory in directories:
                _watch(inotify, directory)
            # After the directories are watched: what changes from now on is noticed below.
            if condition():
                return
            await _next(inotify, directories, relevant)
    finally:
        inotify.close()


def _watch(inotify: Inotify, directory: Path) -> None:
    try:
        inotify.watch(directory)
    except OSError:
        return  # not there; its parent is watched


async def _next(inotify: Inotify, directories: Sequence[Path], relevant: Callable[[Notification], bool]) -> None:
    """Wait for a relevant event, or for the end of the watch of a directory that was deleted."""
    watched = [directory for directory in directories if inotify.watches(directory)]
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    # Irrelevant events are dropped here, without waking the waiting task: a driver writes several files for each claim
    # into the directories that it watches.
    def read() -> None:
        found = [notification for notification in inotify.read() if relevant(notification)]
        if (found or not all(map(inotify.watches, watched))) and not ready.done():
            ready.set_result(None)

    loop.add_reader(inotify.fd, read)
    try:
        await ready
    finally:
        loop.remove_reader(inotify.fd)
