"""A command with its input and output: over pipes, or over a pseudo terminal.

A command is the leader of a session. When its client leaves, the session is hung up as by a terminal that is closed,
and what does not end then is killed. Processes that a command leaves in the background when it ends by itself belong to
its container, and end with that.

The terminal of a command, taken over from the container runtime that makes it.

A runtime that keeps the terminal for itself passes a new size on only while it handles SIGWINCH: a size that is set
before then is lost. With the terminal in the agent's own hands, a size holds from the moment it is set, and input that
is written afterwards finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import signal
import socket
import struct
import tempfile
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from cathedra.node.concurrency import readable, writable
from cathedra.node.runtime.runtime import STDERR, STDOUT, ExecProcess
from cathedra.node.shim.processes import in_sessions_below, kill, signal_all, writes_to

MAX_OUTPUT = 10 * 1024
"""Bytes that are kept of what a probe or a hook writes."""

_CHUNK = 32 * 1024
_HANGUP_SECONDS = 1.0
"""Time for a session that is hung up to end by itself."""


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A command that is to be executed in a running container."""

    argv: tuple[str, ...]
    tty: bool
    log: Path
    """File into which the program that executes it writes why it could not (JSON lines)."""
    console: Path | None = None
    """Socket that receives the command's terminal; None: the terminal is not handed over."""


class Command:
    """A child process of the agent; it ends with it. Made by `start`.

    The agent reads its pipes only as fast as the client takes the output, and keeps nothing of it in between: a client
    that does not read makes the command wait.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        outputs: Mapping[int, int],
        *,
        stdin: int | None = None,
        terminal: int | None = None,
    ) -> None:
        """``outputs`` are descriptors with what comes from them; all descriptors are the command's own from now on."""
        self._process = process
        self._outputs = dict(outputs)
        self._input = stdin
        self._terminal = terminal
        for descriptor in {*outputs, stdin, terminal} - {None}:
            assert descriptor is not None
            os.set_blocking(descriptor, False)

    @staticmethod
    async def start(
        argv: Sequence[str],
        environment: Mapping[str, str] | None,
        directory: str,
        *,
        tty: bool,
        stdin: bool,
    ) -> Command:
        """Start a command.

        Raises:
            OSError: it cannot be executed.
        """
        if tty:
            return await _start_on_terminal(argv, environment, directory)
        with _Pipes() as pipes:
            given = pipes.open_input() if stdin else asyncio.subprocess.DEVNULL
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=environment,
                cwd=directory,
                stdin=given,
                stdout=pipes.open_output(STDOUT),
                stderr=pipes.open_output(STDERR),
                start_new_session=True,
            )
            return pipes.command(process)

    @staticmethod
    async def start_on_console(argv: Sequence[str], console: ConsoleSocket) -> Command:
        """Start a command of a container runtime that passes the terminal's descriptor to the socket ``console``.

        If it ends before that, its messages are the output.

        Raises:
            OSError: it cannot be executed.
        """
        with _Pipes() as pipes:
            end = pipes.open_output(STDOUT)
            process = await asyncio.create_subprocess_exec(
                *argv, cwd="/", stdin=asyncio.subprocess.DEVNULL, stdout=end, stderr=end, start_new_session=True
            )
            command = pipes.command(process)
        try:
            terminal = await console.terminal(process)
        except BaseException:
            await command.close()
            raise
        if terminal is not None:
            command._take_terminal(terminal)
        return command

    def _take_terminal(self, terminal: int) -> None:
        """Read from the terminal instead of what the program that made it writes."""
        for descriptor in tuple(self._outputs):
            self._close_output(descriptor)
        os.set_blocking(terminal, False)
        self._terminal = terminal
        self._outputs = {terminal: STDOUT}

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the output until all streams are closed."""
        while self._outputs:
            waiting = True
            for descriptor, channel in tuple(self._outputs.items()):
                try:
                    data = os.read(descriptor, _CHUNK)
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    data = b""  # every process on the terminal has gone
                waiting = False
                if data:
                    yield channel, data
                else:
                    self._close_output(descriptor)
            if waiting:
                await readable(*self._outputs)
            else:
                await asyncio.sleep(0)  # a command that writes without pause must not keep others waiting

    def _close_output(self, descriptor: int) -> None:
        if self._outputs.pop(descriptor, None) is not None and descriptor != self._terminal:
            os.close(descriptor)

    async def write(self, data: bytes) -> None:
        """Write to standard input. Data that the closed input cannot accept is dropped."""
        rest = memoryview(data)
        while rest and (end := self._terminal if self._terminal is not None else self._input) is not None:
            try:
                rest = rest[os.write(end, rest) :]
            except BlockingIOError:
                await writable(end)
            except OSError:
                return  # the other end is closed

    async def close_input(self) -> None:
        """Close the input: end of file for a pipe, control-D for a terminal."""
        if self._terminal is not None:
            await self.write(b"\x04")
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._input is not None:
            end, self._input = self._input, None
            os.close(end)

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def wait(self) -> int:
        """Return its exit code, 128 + n if signal n ended it."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        """End it, and what runs in its session, unless it has ended by itself."""
        try:
            if self._process.returncode is None or self._outputs:
                await self._end_session()
            await self._process.wait()
        except BaseException:
            self.kill()
            raise
        finally:
            self._close_ends()

    def kill(self) -> None:
        """Kill it at once: its container has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _end_session(self) -> None:
        pipes = [os.fstat(descriptor).st_ino for descriptor in self._outputs if descriptor != self._terminal]
        if self._process.returncode is None:
            # All sessions below the command: a container runtime makes another session.
            belongs = await asyncio.to_thread(in_sessions_below, self._process.pid)
            await _all_ended(await asyncio.to_thread(signal_all, belongs, signal.SIGHUP))
            await asyncio.to_thread(kill, belongs)
        # What holds the output open is left of a command whose first process has ended.
        await asyncio.to_thread(kill, writes_to(*pipes))

    def _close_ends(self) -> None:
        for descriptor in tuple(self._outputs):
            self._close_output(descriptor)
        self._close_pipe()
        if self._terminal is not None:
            terminal, self._terminal = self._terminal, None
            os.close(terminal)


class _Pipes:
    """Pipes of a command that is started in a ``with`` block; they are closed behind it, but for those it has taken."""

    def __init__(self) -> None:
        self._given = set[int]()
        self._outputs = dict[int, int]()
        self._input: int | None = None

    def __enter__(self) -> _Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in {*self._given, *self._outputs, self._input} - {None}:
            assert descriptor is not None
            os.close(descriptor)

    def open_input(self) -> int:
        """Open a pipe for the command's input, and return the end that the command reads from."""
        given, self._input = os.pipe2(os.O_CLOEXEC)
        self._given.add(given)
        return given

    def open_output(self, channel: int) -> int:
        """Open a pipe for an output channel, and return the end that the command writes to."""
        read, given = os.pipe2(os.O_CLOEXEC)
        self._outputs[read] = channel
        self._given.add(given)
        return given

    def command(self, process: asyncio.subprocess.Process) -> Command:
        """Return the command, which owns our ends from now on."""
        outputs, self._outputs = self._outputs, {}
        stdin, self._input = self._input, None
        return Command(process, outputs, stdin=stdin)


async def _start_on_terminal(argv: Sequence[str], environment: Mapping[str, str] | None, directory: str) -> Command:
    ours, theirs = os.openpty()
    try:
        # A controlling terminal, so that control-C and resizing reach the command. Done by a program, because
        # running Python between fork and exec is not safe in a process with threads, as gRPC's are.
        process = await asyncio.create_subprocess_exec(
            "setsid", "--ctty", *argv, env=environment, cwd=directory, stdin=theirs, stdout=theirs, stderr=theirs
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Command(process, {ours: STDOUT}, terminal=ours)


async def _all_ended(descriptors: Sequence[int]) -> None:
    """Wait for processes to end, but not for long, and close their descriptors."""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HANGUP_SECONDS):
                for descriptor in descriptors:
                    await readable(descriptor)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def run_to_end(process: ExecProcess) -> tuple[int, bytes]:
    """Exit code of a command, and the first `MAX_OUTPUT` bytes of what it wrote; it does not outlive the call."""
    try:
        output = b""
        async for _, data in process.output():
            output = (output + data)[:MAX_OUTPUT]
        return await process.wait(), output
    finally:
        await process.close()


_MESSAGE: Final = 4096
"""Bytes of the longest message that a runtime sends with a terminal: its name."""


class ConsoleSocket:
    """A socket at which a runtime hands over one terminal (crun's ``--console-socket``); a context manager."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="cathedra-console-"))
        self.path = self._directory / "socket"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> ConsoleSocket:
        try:
            self._listening.bind(str(self.path))
            self._listening.listen()
            self._listening.setblocking(False)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close and remove the socket."""
        self._listening.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    async def terminal(self, runtime: asyncio.subprocess.Process) -> int | None:
        """Return the file descriptor of the terminal's master; None if ``runtime`` ended without handing one over."""
        async with asyncio.TaskGroup() as group:
            receiving = group.create_task(self._receive())
            ending = group.create_task(runtime.wait())
            # A terminal that was sent before the end is still received after it.
            ending.add_done_callback(self._expect_no_more)
            try:
                return await receiving
            finally:
                ending.cancel()

    def _expect_no_more(self, _: asyncio.Task[int]) -> None:
        """Stand behind the runtime in the queue of connections, and hang up."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.setblocking(False)
            last.connect(str(self.path))

    async def _receive(self) -> int | None:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        with connection:
            await readable(connection.fileno())
            _, descriptors, _, _ = socket.recv_fds(connection, _MESSAGE, 1, socket.MSG_DONTWAIT)
        return descriptors[0] if descriptors else None
