"""A command's streams over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.clock import run_virtual
from cathedra.node.runtime.runtime import STDOUT
from cathedra.node.server.remotecommand import choose_protocol, exit_status, refuse_command, serve_command


class Echo:
    """A process that says what it hears, and ends with its input."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.sizes: list[tuple[int, int]] = []
        self.closed = False
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        while data := await self._heard.get():
            yield STDOUT, data

    async def write(self, data: bytes) -> None:
        self._heard.put_nowait(data)

    async def close_input(self) -> None:
        self._heard.put_nowait(b"")

    def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        self.closed = True


def converse(process: Echo, *frames: bytes, hang_up: bool = False) -> list[dict[str, Any]]:
    """What the server sends when the client sends ``frames``."""
    sent: list[dict[str, Any]] = []

    async def body() -> None:
        waiting = list(frames)

        async def receive() -> dict[str, Any]:
            if waiting:
                return {"type": "websocket.receive", "bytes": waiting.pop(0)}
            if not hang_up:
                await asyncio.sleep(3600)
            return {"type": "websocket.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await serve_command(process, receive, send)

    run_virtual(body())
    return sent


def test_output_and_exit_code_come_on_their_channels() -> None:
    process = Echo(3)
    sent = converse(process, b"\x00hello", b"\xff\x00")
    assert sent[0]["bytes"] == b"\x01hello"
    assert json.loads(sent[1]["bytes"][1:]) == exit_status(3)
    assert sent[1]["bytes"][0] == 3
    assert sent[2] == {"type": "websocket.close", "code": 1000}
    assert process.closed


def test_a_command_does_not_outlive_its_client() -> None:
    process = Echo()
    assert converse(process, hang_up=True) == []
    assert process.closed


@pytest.mark.parametrize(
    "message",
    [
        b'{"Width":1e999,"Height":1}',
        b'{"Width":70000,"Height":1}',
        b'{"Width":-1,"Height":1}',
        b'{"Width":"80","Height":1}',
        b"[" * 100_000,
        b"[" * 255,
        b"\xff\xfe",
        b"null",
        b"",
    ],
)
def test_a_message_that_is_no_size_changes_nothing(message: bytes) -> None:
    process = Echo()
    sent = converse(process, b"\x04" + message, b'\x04{"Width":80,"Height":24}', b"\xff\x00")
    assert process.sizes == [(80, 24)]
    assert sent[-1]["code"] == 1000


def test_the_newest_protocol_of_both_sides_is_chosen() -> None:
    assert choose_protocol(["v4.channel.k8s.io", "v5.channel.k8s.io"]) == "v5.channel.k8s.io"
    assert choose_protocol(["v4.channel.k8s.io"]) == "v4.channel.k8s.io"
    assert choose_protocol(["channel.k8s.io"]) is None


def test_a_refusal_comes_on_the_error_channel() -> None:
    sent: list[dict[str, Any]] = []

    async def body() -> None:
        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await refuse_command({"status": "Failure"}, send)

    run_virtual(body())
    assert sent[0]["bytes"] == b'\x03{"status": "Failure"}'


def test_a_client_that_has_gone_when_output_comes_ends_the_command_quietly() -> None:
    process = Echo()

    async def body() -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.sleep(3600)
            return {"type": "websocket.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            raise OSError("closed")

        await process.write(b"hello")
        await serve_command(process, receive, send)

    run_virtual(body())
    assert process.closed
