"""A command with its input and output: over pipes, or over a pseudo terminal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Mapping, Sequence

from cathedra.node.concurrency import readable, writable
from cathedra.node.runtime.console import ConsoleSocket
from cathedra.node.runtime.runtime import STDERR, STDOUT, ExecProcess

__all__ = ["MAX_OUTPUT", "Command", "run_to_end"]

MAX_OUTPUT = 10 * 1024
"""Bytes that are kept of what a probe or a hook writes."""

_CHUNK = 32 * 1024


class Command:
    """A child process of the agent; it ends with it. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self._process = process
        self._terminal = terminal

    @staticmethod
    async def start(
        argv: Sequence[str], environment: Mapping[str, str] | None, directory: str, *, tty: bool, stdin: bool
    ) -> Command:
        """Start a command.

        Raises:
            OSError: it cannot be executed.
        """
        if not tty:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=environment,
                cwd=directory,
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            return Command(process, None)
        ours, theirs = os.openpty()
        try:
            # A controlling terminal, so that control-C and resizing reach the command. Done by a program, because
            # running Python between fork and exec is not safe in a process with threads, as gRPC's are.
            process = await asyncio.create_subprocess_exec(
                "setsid",
                "--ctty",
                *argv,
                env=environment,
                cwd=directory,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        return Command(process, ours)

    @staticmethod
    async def start_on_console(argv: Sequence[str], console: ConsoleSocket) -> Command:
        """Start a command of a container runtime that hands over the terminal at ``console``.

        If it ends before that, what it says is the output.

        Raises:
            OSError: it cannot be executed.
        """
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        command = Command(process, None)
        try:
            command._terminal = await console.terminal(process)
        except BaseException:
            await command.close()
            raise
        if command._terminal is not None:
            os.set_blocking(command._terminal, False)
        return command

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes, until all ends are closed."""
        if self._terminal is not None:
            async for data in self._read_terminal():
                yield STDOUT, data
            return
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(maxsize=16)
        streams = [
            (channel, stream)
            for channel, stream in ((STDOUT, self._process.stdout), (STDERR, self._process.stderr))
            if stream is not None
        ]
        async with asyncio.TaskGroup() as group:
            for channel, stream in streams:
                group.create_task(_pump(stream, channel, queue))
            open_streams = len(streams)
            while open_streams:
                channel, data = await queue.get()
                if data:
                    yield channel, data
                else:
                    open_streams -= 1

    async def _read_terminal(self) -> AsyncIterator[bytes]:
        while self._terminal is not None:
            try:
                data = os.read(self._terminal, _CHUNK)
            except BlockingIOError:
                await readable(self._terminal)
                continue
            except OSError as error:
                if error.errno == errno.EIO:
                    return  # every process on the terminal has gone
                raise
            if not data:
                return
            yield data

    async def write(self, data: bytes) -> None:
        """Send to its standard input; what it does not take any more is dropped."""
        if self._terminal is not None:
            await self._write_terminal(data)
        elif self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    async def _write_terminal(self, data: bytes) -> None:
        while data and self._terminal is not None:
            try:
                data = data[os.write(self._terminal, data) :]
            except BlockingIOError:
                await writable(self._terminal)
            except OSError:
                return  # the other end is closed

    async def close_input(self) -> None:
        """No more input: end of file for a pipe, control-D for a terminal."""
        if self._terminal is not None:
            await self._write_terminal(b"\x04")
        elif self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.close()

    def resize(self, width: int, height: int) -> None:
        """Tell the terminal its size in characters."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def wait(self) -> int:
        """Its exit code, 128 + n if signal n ended it."""
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        """Kill it if it still runs."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._terminal is not None:
            terminal, self._terminal = self._terminal, None
            os.close(terminal)


async def run_to_end(process: ExecProcess) -> tuple[int, bytes]:
    """Exit code of a command, and the first `MAX_OUTPUT` bytes of what it wrote; it does not outlive the call."""
    try:
        output = b""
        async for _, data in process.output():
            output = (output + data)[:MAX_OUTPUT]
        return await process.wait(), output
    finally:
        await process.close()


async def _pump(stream: asyncio.StreamReader, channel: int, queue: asyncio.Queue[tuple[int, bytes]]) -> None:
    while data := await stream.read(_CHUNK):
        await queue.put((channel, data))
    await queue.put((channel, b""))
