"""Reading container logs: the last lines, from a time on, without end.

docs/spec/node.md §17.10. Files are in the container runtime interface's format: time, stream, tag (full or
partial line), text.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.timestamp import Time, TimeError
from cathedra.files.inotify import Inotify
from cathedra.node.concurrency import first_of, readable

__all__ = ["LogOptions", "read_log", "tail"]

_CHUNK: Final = 256 * 1024
_LOOK_AGAIN: Final = 0.25
"""Seconds between two looks at a directory that is not there yet, or that the kernel cannot watch."""


class LogOptions(msgspec.Struct, frozen=True):
    """Which lines. ``since`` in seconds since the epoch; None means no limit."""

    follow: bool = False
    tail_lines: int | None = None
    since: float | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    stream: str = "All"


class _Lines:
    """Turns the bytes of a log file into what is shown of them."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._middle_of_line = False

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def show(self, line: bytes) -> bytes:
        """What is shown of one line of the file."""
        when, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        wanted = self._options.stream.lower()
        if not tag or (wanted != "all" and stream != wanted.encode()) or self._too_old(when):
            return b""
        begins = not self._middle_of_line
        self._middle_of_line = tag == b"P"
        shown = text + (b"" if tag == b"P" else b"\n")
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
    """The position in the file at which its last ``lines`` full lines begin."""
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
            if position > 0:
                found = found[1:]  # the first may be cut
        return found[-lines] if len(found) >= lines else 0


def _line_starts(data: bytes, offset: int) -> Iterator[int]:
    """Where shown lines begin: partial lines belong to the one that they begin."""
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


class _Writes:
    """Tells when something is written in a directory; where the kernel cannot, after a short time."""

    def __init__(self) -> None:
        self._inotify: Inotify | None = None

    def watch(self, directory: Path) -> None:
        with contextlib.suppress(OSError):
            inotify = Inotify()
            try:
                inotify.watch(directory, writes=True)
            except OSError:
                inotify.close()
                raise
            self._inotify = inotify

    def forget(self) -> None:
        """Take note of what was written until now: it is about to be read."""
        if self._inotify is not None:
            for _ in self._inotify.read():
                pass

    async def wait(self) -> None:
        if self._inotify is None:
            await asyncio.sleep(_LOOK_AGAIN)
        else:
            await readable(self._inotify.fd)

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()


async def read_log(
    path: Path,
    options: LogOptions,
    *,
    ended: Callable[[], bool],
    changes: Callable[[], Iterable[asyncio.Event]] = tuple,
) -> AsyncIterator[bytes]:
    """The log's content, in pieces; with ``follow`` until ``ended()`` says that no more can come.

    ``changes()`` gives the events one of which will be set when ``ended()`` changes. The file may be rotated meanwhile.
    A log that does not exist yet is empty.
    """
    lines, writes = _Lines(options), _Writes()
    while not _exists(path):
        events = tuple(changes())
        if not options.follow or ended():
            return
        await first_of(writes.wait(), *(event.wait() for event in events))
    file = path.open("rb")
    try:
        if options.follow:
            writes.watch(path.parent)
        if options.tail_lines is not None:
            file.seek(tail(path, options.tail_lines))
        rest = b""
        while not lines.full:
            events, over = tuple(changes()), ended()
            writes.forget()
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
            if _rotated(file.fileno(), path):
                file.close()
                file = path.open("rb")
                continue
            await first_of(writes.wait(), *(event.wait() for event in events))
    finally:
        file.close()
        writes.close()


def _exists(path: Path) -> bool:
    return path.exists()


def _rotated(fd: int, path: Path) -> bool:
    try:
        return path.stat().st_ino != os.fstat(fd).st_ino
    except OSError:
        return False
