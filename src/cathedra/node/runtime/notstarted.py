"""Commands that cannot be executed in a container: they exit as in a shell, with 127 or 126.

127 means that the command does not exist, 126 that it cannot be executed. The client then shows the reason and the exit
code instead of an error of the server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from cathedra.node.runtime.command import Command
from cathedra.node.runtime.runtime import STDERR

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_TEXTS: Final = (
    ("permission denied", NOT_EXECUTABLE),
    ("executable file not found", NOT_FOUND),
    ("executable file `", NOT_FOUND),
    ("no such file or directory", NOT_FOUND),
)
"""Texts in the logs of crun and runc, in lower case."""


def exit_code_of(error: OSError) -> int | None:
    """Return the exit code for a command that the kernel refused to execute; None: that is no matter of the command."""
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND
    return NOT_EXECUTABLE if isinstance(error, PermissionError) else None


def exit_code_for(text: str) -> int | None:
    """Return the exit code for an OCI runtime's ``text`` about a command; None: the text is about something else."""
    lower = text.lower()
    return next((code for words, code in _TEXTS if words in lower), None)


class UnstartedCommand:
    """A command that could not be started: its output is the reason, and it has an exit code."""

    def __init__(self, name: str, error: OSError, code: int) -> None:
        reason = (error.strerror or str(error)).lower()
        if code == NOT_FOUND and "/" not in name:
            reason = "executable file not found in $PATH"
        self._text = f'exec: "{name}": {reason}\n'.encode()
        self._code = code

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the reason as the command's standard error."""
        yield STDERR, self._text

    async def write(self, data: bytes) -> None:
        """Discard the data: no process reads it."""

    async def close_input(self) -> None:
        """Do nothing: there is no input."""

    def resize(self, width: int, height: int) -> None:
        """Do nothing: it has no terminal."""

    async def wait(self) -> int:
        """Return its exit code, at once."""
        return self._code

    async def close(self) -> None:
        """Do nothing: there is nothing to end."""


class LoggedCommand:
    """A command of an OCI runtime that writes into ``log`` what it could not do; the file goes with the command.

    The runtime's own exit code is the same whatever it could not do, and may be the command's own as well.
    """

    def __init__(self, command: Command, log: Path) -> None:
        self._command = command
        self._log = log

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the command's output; the runtime also writes its errors there."""
        return self._command.output()

    async def write(self, data: bytes) -> None:
        """Send to its standard input."""
        await self._command.write(data)

    async def close_input(self) -> None:
        """Close the input of the command."""
        await self._command.close_input()

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        self._command.resize(width, height)

    async def wait(self) -> int:
        """Return its exit code; 126 or 127 if it could not be executed."""
        code = await self._command.wait()
        if code == 0:
            return code
        text = await asyncio.to_thread(_logged_error, self._log)
        return exit_code_for(text) or code

    async def close(self) -> None:
        """End it if it still runs, and remove the log."""
        await self._command.close()
        await asyncio.to_thread(self._log.unlink, missing_ok=True)


def _logged_error(log: Path) -> str:
    """Return the last error in a log of JSON lines, in lower case; "" if there is none."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") == "error":
            return str(entry.get("msg", "")).lower()
    return ""
