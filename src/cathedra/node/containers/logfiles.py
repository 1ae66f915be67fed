"""Reading container logs: the last lines, from a time on, without end.

docs/spec/node.md §17.10. Files are in the container runtime interface's format: time, stream, tag (full or
partial line), text.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.timestamp import Time, TimeError
from cathedra.files.inotify import Inotify
from cathedra.node.concurrency import Event, first_of

_CHUNK: Final = 256 * 1024
_LOOK_AGAIN: Final = 0.25
"""Seconds between checks of a directory that does not exist yet or that the kernel cannot watch."""


class LogOptions(msgspec.Struct, frozen=True):
    """Selection of log lines. ``since`` is in seconds since the epoch; None is no limit."""

    follow: bool = False
    tail_lines: int | None = None
    since: float | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    stream: str = "All"


class _Lines:
    """Converts the bytes of a log file to its output."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._middle_of_line = False

    @property
    def full(self) -> bool:
        """Return True if the limit is reached."""
        return self._left is not None and self._left <= 0

    def show(self, line: bytes) -> bytes:
        """Return the output for one line of the file."""
        when, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        wanted = self._options.stream.lower()
        if not tag or (wanted != "all" and stream != wanted.encode()) or self._too_old(when):
            return b""
        begins = not self._middle_of_line
        # The runtime cuts long lines into partial entries: only the first of them gets the timestamp.
        self._middle_of_line = tag == b"P"
        shown = text + (b"" if tag == b"P" else b"\n")
        # Before the limit is applied: it counts what is shown.
        if self._options.timestamps and begins:
            shown = when + b" " + shown
        if self._left is not None:
            shown = shown[: max(self._left, 0)]
            self._left -= len(shown)
        return shown

    def _too_old(self, when: bytes) -> bool:
        since = self._options.since
        if since is None:
            return False
        try:
            return Time.parse(when.decode()).timestamp < int(since)
        except (TimeError, UnicodeDecodeError):
            return False


def tail(path: Path, lines: int) -> int:
    """Return the position in the file at which its last ``lines`` full lines begin."""
    if lines <= 0:
        return path.stat().st_size
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        rest = b""
        found: list[int] = []
        while position > 0 and len(found) <= lines:
            step = min(_CHUNK, position)
            position -= step
            file.seek(position)
            rest = file.read(step) + rest
            found = list(_line_starts(rest, position))
            # The first line may begin in the chunk before.
            if position > 0:
                found = found[1:]  # the first may be cut
        return found[-lines] if len(found) >= lines else 0


def _line_starts(data: bytes, offset: int) -> Iterator[int]:
    """Yield the offsets at which output lines begin. Partial entries belong to the line that they begin."""
    start = 0
    begins = True
    while start < len(data):
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)]
        if begins:
            yield offset + start
        begins = line.split(b" ", 3)[2:3] != [b"P"]
        if end < 0:
            return
        start = end + 1


class LogWrites:
    """Notifies readers of followed logs of writes, with one inotify instance for all.

    A host allows 128 inotify instances per user by default. This one exists only while a log is followed.
    """

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._followers: dict[Path, set[asyncio.Event]] = {}

    @property
    def followers(self) -> int:
        """Return the number of logs that are followed."""
        return sum(len(events) for events in self._followers.values())

    @contextlib.contextmanager
    def watching(self, directory: Path) -> Iterator[asyncio.Event | None]:
        """Yield an event that is set by each write in ``directory``; None where the kernel cannot watch that."""
        written = asyncio.Event()
        if not self._watch(directory):
            yield None
            return
        events = self._followers.setdefault(directory, set())
        events.add(written)
        try:
            yield written
        finally:
            events.discard(written)
            if not events:
                self._unwatch(directory)

    def _watch(self, directory: Path) -> bool:
        try:
            if self._inotify is None:
                self._inotify = Inotify()
                asyncio.get_running_loop().add_reader(self._inotify.fd, self._notify, self._inotify)
            if directory not in self._followers:
                self._inotify.watch(directory, writes=True)
        except OSError:
            self._close_unused()
            return False
        return True

    def _unwatch(self, directory: Path) -> None:
        del self._followers[directory]
        if self._inotify is not None:
            self._inotify.unwatch(directory)
        self._close_unused()

    def _close_unused(self) -> None:
        if self._inotify is not None and not self._followers:
            inotify, self._inotify = self._inotify, None
            asyncio.get_running_loop().remove_reader(inotify.fd)
            inotify.close()

    def _notify(self, inotify: Inotify) -> None:
        for notification in inotify.read():
            path = notification.path
            found = self._followers.values() if path is None else [self._followers.get(path.parent, set())]
            for events in found:
                for written in events:
                    written.set()


async def read_log(
    path: Path,
    options: LogOptions,
    writes: LogWrites,
    *,
    ended: Callable[[], bool],
    changes: Callable[[], Iterable[asyncio.Event | Event]] = tuple,
) -> AsyncGenerator[bytes, None]:
    """Yield the log's content in pieces; with ``follow``, until ``ended()`` returns True.

    ``changes()`` returns the events one of which is set when ``ended()`` changes. The file may be rotated meanwhile. A
    log that does not exist yet is empty.
    """
    lines = _Lines(options)
    if not await _exists_in_time(path, options, ended, changes):
        return
    with contextlib.ExitStack() as stack:
        written = stack.enter_context(writes.watching(path.parent)) if options.follow else None
        file = stack.enter_context(_LogFile(path))
        if options.tail_lines is not None:
            file.seek(tail(path, options.tail_lines))
        rest = b""
        while not lines.full:
            # Read before the file: what is written after the end was seen would otherwise be lost.
            events, over = tuple(changes()), ended()
            if written is not None:
                written.clear()  # what was written until now is about to be read
            data = file.read(_CHUNK)
            if data:
                *complete, rest = (rest + data).split(b"\n")
                piece = b"".join(lines.show(line) for line in complete)
                if piece:
                    yield piece
                # Other tasks get their turn between two large pieces.
                await asyncio.sleep(0)
                continue
            if not options.follow or over:
                return
            # Only at the end of the old file, so that nothing of it is skipped.
            if file.reopen_rotated():
                continue
            next_write = asyncio.sleep(_LOOK_AGAIN) if written is None else written.wait()
            await first_of(next_write, *(event.wait() for event in events))


async def _exists_in_time(
    path: Path,
    options: LogOptions,
    ended: Callable[[], bool],
    changes: Callable[[], Iterable[asyncio.Event | Event]],
) -> bool:
    """Return True if a log exists; with ``follow``, wait for it until ``ended()`` returns True."""
    while not _exists(path):
        events = tuple(changes())
        if not options.follow or ended():
            return False
        await first_of(asyncio.sleep(_LOOK_AGAIN), *(event.wait() for event in events))
    return True


class _LogFile:
    """The file of a log, which may be put aside for another one of its name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")

    def seek(self, position: int) -> None:
        """Continue at a position."""
        self._file.seek(position)

    def read(self, size: int) -> bytes:
        """Return the next bytes; b"" where nothing more is written yet."""
        return self._file.read(size)

    def __enter__(self) -> _LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def reopen_rotated(self) -> bool:
        """Open the file that has the name now; False if it is still the same."""
        try:
            if self._path.stat().st_ino == os.fstat(self._file.fileno()).st_ino:
                return False
            file = self._path.open("rb")
        except OSError:
            return False
        self._file.close()
        self._file = file
        return True


def _exists(path: Path) -> bool:
    return path.exists()
