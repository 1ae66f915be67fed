"""Streams of a command over a WebSocket, in every sub-protocol of Kubernetes.

docs/spec/kubectl.md §6.2. Every message has the number of its channel. The last message of the error channel is how the
command ended: a Status from v4 on, and before that its text, or nothing after a success. Only in v5 can a client end
the input of a command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from cathedra.asgi.application import Receive, Send
from cathedra.node.concurrency import first_of, until_gone
from cathedra.node.runtime.runtime import STDOUT, ExecProcess
from cathedra.node.server.bytechannel import NumberedChannels

_V5: Final = "v5.channel.k8s.io"
PROTOCOLS: Final = (
    _V5,
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
"""Sub-protocols, the newest first. "" is none, and means the same as ``channel.k8s.io``."""

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
_ERROR: Final = 3
_RESIZE: Final = 4
_CLOSE: Final = 255
_LONGEST_SIZE: Final = 256
"""Bytes of a message with a terminal's size."""

_Characters = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]


class AnnouncedStreams(msgspec.Struct, frozen=True):
    """The streams that a request announces."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def any(self) -> bool:
        """Return True if there is one for input or output, without which Kubernetes refuses a request."""
        return self.stdin or self.stdout or self.stderr

    @property
    def errors(self) -> bool:
        """Return True if there is one for standard error. A terminal mixes both outputs."""
        return self.stderr and not self.tty

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of streams that a SPDY client opens."""
        flags = {
            "error": True,
            "stdin": self.stdin,
            "stdout": self.stdout,
            "stderr": self.errors,
            "resize": self.tty,
        }
        return frozenset(kind for kind, flag in flags.items() if flag)


def exit_status(code: int) -> dict[str, Any]:
    """Return the Status of the error channel for an exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class CommandSocket:
    """A command's side of an accepted WebSocket that speaks ``protocol``, one of `PROTOCOLS`."""

    def __init__(self, receive: Receive, send: Send, protocol: str, wanted: AnnouncedStreams) -> None:
        self._channels = NumberedChannels(receive, send, base64="base64." in protocol)
        self._wanted = wanted
        self._closes_input = protocol == _V5
        self._has_status = protocol.startswith(("v4.", "v5."))

    async def greet(self) -> None:
        """Send an empty message on the first channel for output. Clients take it for the sign that they are connected.

        Raises:
            OSError: the client is gone.
        """
        first = _STDOUT if self._wanted.stdout else _STDERR if self._wanted.errors else _ERROR
        await self._channels.put(first, b"")

    async def serve(self, process: ExecProcess) -> None:
        """Connect it with a command until either ends; the command does not outlive it."""
        try:
            await first_of(self._send_output(process), self._take_input(process))
        finally:
            await process.close()

    @until_gone
    async def refuse(self, status: Mapping[str, Any]) -> None:
        """Send the reason why there is no command."""
        await self._end(status)

    @until_gone
    async def _send_output(self, process: ExecProcess) -> None:
        # The output is read even if no channel wants it: the command would wait for ever behind a full pipe.
        async for stream, data in process.output():
            if stream == STDOUT and self._wanted.stdout:
                await self._channels.put(_STDOUT, data)
            elif stream != STDOUT and self._wanted.errors:
                await self._channels.put(_STDERR, data)
        await self._end(exit_status(await process.wait()))

    async def _end(self, status: Mapping[str, Any]) -> None:
        if self._has_status:
            await self._channels.put(_ERROR, json.dumps(status).encode())
        elif status["status"] != "Success":
            await self._channels.put(_ERROR, str(status.get("message", "")).encode())
        await self._channels.close()

    @until_gone
    async def _take_input(self, process: ExecProcess) -> None:
        """Hand input to the command until the client is gone."""
        async for channel, data in self._channels.messages():
            if channel == _STDIN and data and self._wanted.stdin:
                await process.write(data)
            elif channel == _RESIZE:
                resize_terminal(process, data)
            elif channel == _CLOSE and data[:1] == bytes([_STDIN]) and self._closes_input:
                await process.close_input()


class _TerminalSize(msgspec.Struct):
    width: _Characters = msgspec.field(name="Width", default=0)
    height: _Characters = msgspec.field(name="Height", default=0)


def resize_terminal(process: ExecProcess, payload: bytes) -> None:
    """Set the terminal's size from the client's JSON; invalid sizes are ignored."""
    if len(payload) > _LONGEST_SIZE:
        return
    try:
        size = msgspec.json.decode(payload, type=_TerminalSize)
    except ValueError:
        return
    process.resize(size.width, size.height)
