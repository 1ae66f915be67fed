"""Log files of containers, in the format of the Container Runtime Interface (docs/spec/node.md §17.10)."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

_CHUNK: Final = 16 * 1024
ROTATE_BYTES: Final = 10 * 1024 * 1024
"""Size at which a log is rotated."""
_ROTATED_FILES: Final = 4


def rotate_files(path: Path) -> None:
    """Give the log at ``path`` a name with the time, and remove the oldest of those.

    Raises:
        OSError: it cannot be renamed.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    path.rename(path.with_name(f"{path.name}.{stamp}"))
    for old in sorted(path.parent.glob(f"{path.name}.*"))[:-_ROTATED_FILES]:
        old.unlink()


class LogFile:
    """A container's log in the format of the container runtime interface, rotated by size
    (docs/spec/node.md §17.10)."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._fd).st_size
        self._rest: dict[str, bytes] = {}

    def write(self, stream: str, data: bytes) -> None:
        """Add what the container wrote; an unfinished line waits, one that is too long is cut into parts."""
        lines = (self._rest.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        head = f"{_timestamp(time.time_ns())} {stream} ".encode()
        out = bytearray()
        for line in lines:
            for start in range(0, max(len(line), 1), _CHUNK):
                tag = b"P " if start + _CHUNK < len(line) else b"F "
                out += head + tag + line[start : start + _CHUNK] + b"\n"
        while len(rest) > _CHUNK:
            out += head + b"P " + rest[:_CHUNK] + b"\n"
            rest = rest[_CHUNK:]
        if rest:
            self._rest[stream] = rest
        self._put(bytes(out))

    def finish(self, stream: str) -> None:
        """The stream has ended: what waits is written as it is."""
        rest = self._rest.pop(stream, b"")
        if rest:
            self._put(f"{_timestamp(time.time_ns())} {stream} P ".encode() + rest + b"\n")

    def _put(self, data: bytes) -> None:
        if not data:
            return
        with contextlib.suppress(OSError):  # a full disk must not end the container
            os.write(self._fd, data)
        self._size += len(data)
        if self._size > ROTATE_BYTES:
            self._rotate()

    def _rotate(self) -> None:
        with contextlib.suppress(OSError):
            rotate_files(self._path)
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            os.close(self._fd)
            self._fd, self._size = fd, 0

    def close(self) -> None:
        """Close the file; nothing is written afterwards."""
        os.close(self._fd)


def _timestamp(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"
