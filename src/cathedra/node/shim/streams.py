"""Input and output of a container: pipes or a terminal, the log, and attached connections."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cathedra.node.shim.children import ChildStreams

_CHUNK: Final = 65536

OutputCallback = Callable[[str, bytes], None]
"""Called with output: the stream's name and the bytes; no bytes mean that nothing more will come."""


class ContainerStreams:
    """The streams of one container; closed when all that can be read has been read."""

    def __init__(self, selector: selectors.BaseSelector, log: LogFile) -> None:
        self._selector = selector
        self._log: LogFile | None = log
        self._outputs: dict[int, str] = {}
        self._input: int | None = None
        self._terminal: int | None = None
        self._listeners: dict[Any, OutputCallback] = {}
        self._pending = bytearray()
        self._on_written: list[Callable[[], None]] = []
        self._input_ends = False
        self._finished = False
        self._paused = set[Any]()
        """Receivers that have paused."""

    def open_pipes(self, *, stdin: bool) -> ChildStreams:
        """Open pipes for standard output and error, and for input if ``stdin``. Return the ends that the container
        gets."""
        given = None
        if stdin:
            given, self._input = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._input, False)
        return ChildStreams(given, self._open_output("stdout"), self._open_output("stderr"))

    def _open_output(self, name: str) -> int:
        read, write = os.pipe2(os.O_CLOEXEC)
        self._read_from(read, name)
        return write

    def open_terminal(self) -> ChildStreams:
        """Open a terminal for all streams. Return the end that the container gets."""
        ours, theirs = os.openpty()
        self.take_terminal(ours)
        return ChildStreams(theirs, theirs, theirs, terminal=True)

    def take_terminal(self, fd: int) -> None:
        """Note that the container has made a terminal; this is our end of it."""
        os.set_inheritable(fd, False)
        self._terminal = fd
        self._read_from(fd, "stdout")

    def _read_from(self, fd: int, name: str) -> None:
        # The shim has one thread: a read that blocks on one container would stop the output of all others.
        os.set_blocking(fd, False)
        self._outputs[fd] = name
        self._selector.register(fd, selectors.EVENT_READ, self._ready)

    # Out

    def listen(self, who: Any, listener: OutputCallback) -> None:
        """Pass all output to ``listener`` from now on; if the streams are closed, call it at once."""
        self._listeners[who] = listener
        if not self._outputs:
            listener("", b"")

    def ignore(self, who: Any) -> None:
        """Remove a listener, and resume the output that it had paused."""
        self._listeners.pop(who, None)
        self.resume(who)

    def pause(self, who: Any) -> None:
        """Stop reading output until `resume`: a listener is behind. The container blocks once its pipe is full."""
        if who in self._listeners:
            self._paused.add(who)
            self._watch_outputs()

    def resume(self, who: Any) -> None:
        """Note that the listener has caught up, or is gone."""
        if who in self._paused:
            self._paused.discard(who)
            self._watch_outputs()

    def _watch_outputs(self) -> None:
        for fd in self._outputs:
            self._watch(fd, waiting=fd == self._terminal and bool(self._pending))

    def drain(self) -> None:
        """Read the remaining output: the container has ended."""
        for fd in tuple(self._outputs):
            while fd in self._outputs and self._read(fd):
                pass

    def _ready(self, fd: int) -> None:
        if self._pending:
            self._flush()
        if fd in self._outputs and not self._paused:
            # Once: a container that writes without pause must not keep the shim from others.
            self._read(fd)

    def _read(self, fd: int) -> bool:
        """Read available output, up to a limit. Return False if there was none."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # a terminal whose other end is closed
        if not data:
            self._close_output(fd)
            return False
        # The log is written first: it must have everything, also when a client disconnects.
        if self._log is not None:
            self._log.write(self._outputs[fd], data)
        for listener in tuple(self._listeners.values()):
            listener(self._outputs[fd], data)
        return True

    def _close_output(self, fd: int) -> None:
        name = self._outputs.pop(fd)
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        os.close(fd)
        if fd == self._terminal:
            self._terminal = None
        if self._log is not None:
            self._log.finish(name)
        if not self._outputs:
            self._finish()

    def _finish(self) -> None:
        # Reached from the end of the output and from `close`; listeners must be called once at the end.
        if self._finished:
            return
        self._finished = True
        if self._log is not None:
            self._log.close()
            self._log = None
        self._close_pipe()
        self._flush()
        for listener in tuple(self._listeners.values()):
            listener("", b"")

    # In

    def write(self, data: bytes, written: Callable[[], None]) -> None:
        """Send to the container's input; ``written`` is called when the container has room for more."""
        self._pending += data
        self._on_written.append(written)
        self._flush()

    def close_input(self) -> None:
        """Close the input after the waiting data has been written. A terminal has no such end."""
        self._input_ends = True
        self._flush()

    def _flush(self) -> None:
        fd = self._terminal if self._terminal is not None else self._input
        try:
            while self._pending and fd is not None:
                del self._pending[: os.write(fd, self._pending)]
        except BlockingIOError:
            self._watch_input(fd, waiting=True)
            return
        except OSError:
            self._close_pipe()  # the other end is closed
        else:
            self._watch_input(fd, waiting=False)
        self._pending.clear()
        written, self._on_written = self._on_written, []
        for each in written:
            each()
        if self._input_ends:
            self._close_pipe()

    def _watch_input(self, fd: int | None, *, waiting: bool) -> None:
        """Wake up when there is room again; a terminal is watched for its output too."""
        if fd is not None:
            self._watch(fd, waiting=waiting)

    def _watch(self, fd: int, *, waiting: bool) -> None:
        """Watch a descriptor for output, unless it is paused, and for room for input if some is waiting."""
        events = selectors.EVENT_WRITE if waiting else 0
        if fd in self._outputs and not self._paused:
            events |= selectors.EVENT_READ
        watched = fd in self._selector.get_map()
        if not events:
            if watched:
                self._selector.unregister(fd)
        elif watched:
            self._selector.modify(fd, events, self._ready)
        else:
            self._selector.register(fd, events, self._ready)

    def _close_pipe(self) -> None:
        if self._input is not None:
            self._watch_input(self._input, waiting=False)
            os.close(self._input)
            self._input = None

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close(self) -> None:
        """Note that the container is gone: read nothing more."""
        for fd in tuple(self._outputs):
            self._close_output(fd)
        self._finish()


_PART: Final = 16 * 1024
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
            for start in range(0, max(len(line), 1), _PART):
                tag = b"P " if start + _PART < len(line) else b"F "
                out += head + tag + line[start : start + _PART] + b"\n"
        while len(rest) > _PART:
            out += head + b"P " + rest[:_PART] + b"\n"
            rest = rest[_PART:]
        if rest:
            self._rest[stream] = rest
        self._put(bytes(out))

    def finish(self, stream: str) -> None:
        """Note that the stream has ended: what waits is written as it is."""
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
