"""Discovery of registration sockets: the desired state of plugin registration (docs/spec/node.md §2.1).

Every socket below the directory counts, whatever its name, unless it begins with a dot. A socket that was removed and
created again gets another number, so that it is registered again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from cathedra.clock import Clock
from cathedra.files.inotify import Inotify

_LOG = logging.getLogger(__name__)


class SocketWatcher:
    """Follows the sockets below ``root`` and calls ``on_change(path, number)``; number None means that it is gone."""

    def __init__(self, root: Path, on_change: Callable[[Path, int | None], None], *, clock: Clock) -> None:
        self._root = root
        self._on_change = on_change
        self._clock = clock
        self._numbers = itertools.count(1)
        self._sockets: dict[Path, tuple[int, int]] = {}

    async def run(self) -> None:
        """Report existing sockets, then every change, until cancelled."""
        self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        try:
            # Containers and network file systems may have no notifications, and the number of watchers has a limit.
            inotify = Inotify()
        except OSError:
            await self._poll()
            return
        loop = asyncio.get_running_loop()
        try:
            self._enter_directory(inotify, self._root)
            loop.add_reader(inotify.fd, self._receive, inotify)
            await loop.create_future()
        finally:
            loop.remove_reader(inotify.fd)
            inotify.close()

    def _enter_directory(self, inotify: Inotify, directory: Path) -> None:
        """Watch first, then look: what appears in between is seen twice rather than never."""
        try:
            inotify.watch(directory)
            entries = sorted(directory.iterdir())
        except OSError:
            return  # gone again
        for path in entries:
            if path.name.startswith("."):
                continue
            if path.is_dir() and not path.is_symlink():
                self._enter_directory(inotify, path)
            else:
                self._appeared(path)

    def _receive(self, inotify: Inotify) -> None:
        for event in inotify.read():
            # The kernel dropped events because the queue was full, so only the directory itself shows what is there.
            if event.path is None:
                self._look()
            elif event.path.name.startswith("."):
                continue
            elif event.is_directory and event.created:
                self._enter_directory(inotify, event.path)
            elif event.created:
                self._appeared(event.path)
            else:
                self._vanished(event.path)
        if not inotify.watches(self._root):
            self._begin_again(inotify)

    def _begin_again(self, inotify: Inotify) -> None:
        """Make the directory again after it was removed with all that was in it: drivers put their sockets there."""
        try:
            self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            _LOG.error("%s was removed and cannot be made again: %s", self._root, error)
            return
        _LOG.warning("%s was removed and is made again", self._root)
        self._look()
        self._enter_directory(inotify, self._root)

    def _appeared(self, path: Path) -> None:
        identity = _socket_identity(path)
        # Only a new inode is a new plugin: events of permissions and times arrive for a socket that is known.
        if identity is None or self._sockets.get(path) == identity:
            return
        self._sockets[path] = identity
        self._on_change(path, next(self._numbers))

    def _vanished(self, path: Path) -> None:
        if self._sockets.pop(path, None) is not None:
            self._on_change(path, None)

    def _look(self) -> None:
        """Compare with what is really there."""
        present = {path for path in _walk(self._root) if _socket_identity(path) is not None}
        for path in sorted(set(self._sockets) - present):
            self._vanished(path)
        for path in sorted(present):
            self._appeared(path)

    async def _poll(self) -> None:
        """List the directory once a second, where the kernel has no notifications."""
        while True:
            self._look()
            await self._clock.sleep(1.0)


def _walk(root: Path) -> Iterator[Path]:
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = [name for name in subdirectories if not name.startswith(".")]
        yield from (Path(directory, name) for name in names if not name.startswith("."))


def _socket_identity(path: Path) -> tuple[int, int] | None:
    """Inode and change time of a socket: two sockets at one path differ in it."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns) if stat.S_ISSOCK(found.st_mode) else None
