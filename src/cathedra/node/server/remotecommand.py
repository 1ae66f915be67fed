"""Streams of a command over a WebSocket, in the sub-protocols ``v5.channel.k8s.io`` and ``v4.channel.k8s.io``.

docs/spec/kubectl.md §6.2. The first byte of every frame is the channel; the last frame of the error channel has the
exit status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from cathedra.asgi.application import Receive, Send
from cathedra.node.concurrency import first_of, until_gone
from cathedra.node.runtime.runtime import STDOUT, ExecProcess

__all__ = ["PROTOCOLS", "choose_protocol", "exit_status", "refuse_command", "resize_terminal", "serve_command"]

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""Sub-protocols by preference."""

_STDIN: Final = 0
_ERROR: Final = 3
_RESIZE: Final = 4
_CLOSE: Final = 255
_LONGEST_SIZE: Final = 256
"""Bytes of a message with a terminal's size."""

_Characters = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]


def choose_protocol(offered: Sequence[str]) -> str | None:
    """The best sub-protocol that both sides know."""
    return next((protocol for protocol in PROTOCOLS if protocol in offered), None)


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


async def serve_command(process: ExecProcess, receive: Receive, send: Send) -> None:
    """Connect an accepted WebSocket with a command until either ends; the command does not outlive it."""
    try:
        await first_of(_send_output(process, send), _take_input(process, receive))
    finally:
        await process.close()


async def refuse_command(status: Mapping[str, Any], send: Send) -> None:
    """Send over an accepted WebSocket the reason why there is no command."""
    await send({"type": "websocket.send", "bytes": bytes([_ERROR]) + json.dumps(status).encode()})
    await send({"type": "websocket.close", "code": 1000})


@until_gone
async def _send_output(process: ExecProcess, send: Send) -> None:
    async for channel, data in process.output():
        await send({"type": "websocket.send", "bytes": bytes([1 if channel == STDOUT else 2]) + data})
    status = json.dumps(exit_status(await process.wait())).encode()
    await send({"type": "websocket.send", "bytes": bytes([_ERROR]) + status})
    await send({"type": "websocket.close", "code": 1000})


@until_gone
async def _take_input(process: ExecProcess, receive: Receive) -> None:
    """Hand input to the command until the client is gone."""
    while (message := await receive())["type"] == "websocket.receive":
        data = message.get("bytes") or (message.get("text") or "").encode()
        if not data:
            continue
        channel, payload = data[0], data[1:]
        if channel == _STDIN and payload:
            await process.write(payload)
        elif channel == _RESIZE:
            resize_terminal(process, payload)
        elif channel == _CLOSE and payload[:1] == bytes([_STDIN]):
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
